// The tests of queues, in whichever file, on both databases.
#include "tests/queue/queue_fixture.h"

#include "schedules/targets/target.h"
#include "src/net/words.h"

namespace lw {

INSTANTIATE_TEST_SUITE_P(Databases, QueueTest, ::testing::Values("sqlite", "postgres"),
                         [](const auto& info) { return std::string(info.param); });

int64_t QueueTest::queue(const std::string& study, int candidates, int position,
                         int64_t run_after, const std::string& target) {
  int64_t id = 0;
  write([&](WriteTransaction& tx) -> absl::Status {
    ASSIGN_OR_RETURN(const std::optional<StudyRow> row, find_study(tx, study));
    JobRow job;
    job.study = study;
    job.position = position;
    job.client = row->client;
    job.target = sha256(to_text(make_target(target)));
    job.priority = row->priority;
    job.run_after = run_after;
    job.created_ms = now_;
    job.candidates = candidates;
    job.backend = backend_;
    job.payload.set_kind(v1::JOB_KIND_MEASURE);
    job.payload.set_seed(3);
    for (int i = 0; i < candidates; ++i) {
      v1::CandidateSpec& candidate = *job.payload.add_candidates();
      candidate.set_index(i);
      candidate.set_trace(make_trace(++traces_));
      job.sources.push_back("evolve");
    }
    ASSIGN_OR_RETURN(id, insert_job(tx, job));
    return absl::OkStatus();
  });
  return id;
}

v1::SynchronizeRequest QueueTest::request_of(const Asker& asker, int wanted) {
  v1::SynchronizeRequest request;
  request.set_agent(agent_name(asker.agent));
  request.set_session(asker.session);
  request.set_leaving(asker.leaving);
  for (const std::string& id : asker.devices) {
    v1::DeviceState& state = *request.add_devices();
    state.set_name(device_name(id));
    state.set_wanted(wanted);
    state.set_health(asker.health);
    v1::Device& device = *state.mutable_description();
    const Target target = make_target(asker.target);
    *device.mutable_target() = to_proto(target);
    device.set_target_id(sha256(to_text(target)));
    device.set_backend(asker.backend);
    device.set_fingerprint(asker.fingerprint);
    device.set_slots(2);
    device.mutable_words()->Assign(known_words().begin(), known_words().end());
    for (const v1::Job& job : asker.held) {
      if (job.device() != device_name(id)) continue;
      v1::HeldJob& held = *state.add_held();
      held.set_job(job.name());
      held.set_epoch(job.epoch());
    }
  }
  for (const v1::JobResult& result : asker.results) *request.add_results() = result;
  return request;
}

}  // namespace lw
