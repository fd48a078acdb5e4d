// A service in this process and agents that are loops of calls: what the tests of faults share. The
// agents measure nothing: an outcome is computed from the candidate's trace, so that every run of a
// study sees the same times.
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "loopwright/v1/agent.pb.h"
#include "schedules/targets/target.h"
#include "src/agent/describe.h"
#include "src/base/message.h"
#include "src/expr/language/text.h"
#include "src/net/words.h"
#include "src/serve/messages/errors.h"
#include "src/serve/messages/names.h"
#include "src/serve/service/service.h"
#include "tests/support/program.h"
#include "tests/support/store_fixture.h"
#include "tuner_db/messages/messages.h"

namespace lw {

namespace v1 = loopwright::v1;

inline constexpr int kPatienceMs = 30'000;  // for what must happen: never the time that it takes

inline Caller local_caller() { return {local_identity(), "test"}; }

inline ServiceOptions quick_service() {
  ServiceOptions options;
  options.version = "test";
  options.rules.backoff_ms = 1;
  options.searcher.adopt_ms = 50;
  options.searcher.drafts = static_cast<int>(setting("LW_DRAFTS", options.searcher.drafts));
  return options;
}

// A small study of one workload: a zero trial, `trials` candidates, finals.
inline v1::StudySpec small_study(int trials, const std::string& target = "x86_avx2",
                                 const std::string& words = "matmul M=16 N=16 K=16") {
  v1::StudySpec spec;
  v1::StudyWorkload& workload = *spec.add_workloads();
  workload.set_program(print(*load_workload({words})));
  workload.set_source_words(words);
  spec.set_target(target);
  spec.set_threads(1);
  spec.set_trials(trials);
  spec.set_batch(2);
  return spec;
}

// Made by the service; its id.
inline std::string make_study(Service& service, int trials, const std::string& request_id = "1") {
  v1::CreateStudyRequest request;
  request.set_request_id(request_id);
  *request.mutable_spec() = small_study(trials);
  google::longrunning::Operation operation;
  const absl::Status status = service.studies.create_study(local_caller(), request, &operation);
  EXPECT_TRUE(status.ok()) << status;
  return id_of(operation.name());
}

inline v1::JobResult measured(const v1::Job& job) {
  v1::JobResult result;
  result.set_job(job.name());
  result.set_epoch(job.epoch());
  for (const v1::CandidateSpec& candidate : job.candidates()) {
    const std::string hash = sha256(candidate.trace());
    const double time_us = 10 + static_cast<unsigned char>(hash[0]);
    Measurement m = make_measurement(0, {time_us, time_us, time_us});
    m.trace.clear();
    m.kernel_hash = std::hash<std::string>()(candidate.trace()) | 1;
    v1::CandidateOutcome& outcome = *result.add_outcomes();
    outcome.set_index(candidate.index());
    *outcome.mutable_measurement() = to_proto(m);
    outcome.mutable_measurement()->clear_trace();
  }
  result.mutable_run_time()->set_nanos(1'000'000);
  result.set_digest(result_digest(result));
  return result;
}

inline absl::StatusOr<v1::SynchronizeResponse> synchronize(Agents& agents,
                                                           const v1::SynchronizeRequest& request) {
  auto promise = std::make_shared<std::promise<std::pair<absl::Status, v1::SynchronizeResponse>>>();
  auto future = promise->get_future();
  agents.synchronize(local_caller(), std::make_shared<v1::SynchronizeRequest>(request),
                     [promise](absl::Status status, v1::SynchronizeResponse response) {
                       promise->set_value({std::move(status), std::move(response)});
                     });
  auto [status, response] = future.get();
  if (!status.ok()) return status;
  return response;
}
inline absl::StatusOr<v1::SynchronizeResponse> synchronize(Service& service,
                                                           const v1::SynchronizeRequest& request) {
  return synchronize(service.agents, request);
}

// An agent as its server sees it. Not thread-safe.
class FleetAgent {
 public:
  FleetAgent(std::string name, std::string session, std::vector<std::string> devices,
             const std::string& target = "x86_avx2")
      : name_(std::move(name)), session_(std::move(session)), devices_(std::move(devices)) {
    CHECK(describe_target(*find_target(target), &description_).ok());
    description_.set_kind("null");
    description_.set_slots(2);
    description_.mutable_words()->Assign(known_words().begin(), known_words().end());
  }

  // What to send now: results without a receipt, the jobs at hand, and room for more.
  v1::SynchronizeRequest request(int wanted = 1, double wait_s = 0.05) {
    v1::SynchronizeRequest request;
    request.set_agent("agents/" + name_);
    request.set_session(session_);
    request.set_version("test");
    request.set_sequence(++sequence_);
    request.mutable_wait()->set_nanos(static_cast<int32_t>(wait_s * 1e9));
    for (const std::string& device : devices_) {
      v1::DeviceState& state = *request.add_devices();
      state.set_name("devices/" + device);
      if (describe_) {
        *state.mutable_description() = description_;
        state.mutable_description()->set_name(state.name());
      }
      state.set_wanted(wanted);
      for (const v1::Job& job : held_) {
        if (job.device() != state.name()) continue;
        v1::HeldJob& held = *state.add_held();
        held.set_job(job.name());
        held.set_epoch(job.epoch());
      }
    }
    for (const v1::JobResult& result : owed_) *request.add_results() = result;
    return request;
  }

  // Takes the answer in: receipts, cancelled jobs, new ones.
  void apply(const v1::SynchronizeResponse& response) {
    describe_ = response.describe();
    for (const v1::Receipt& receipt : response.receipts()) {
      std::erase_if(owed_, [&](const v1::JobResult& result) {
        return result.job() == receipt.job() && result.epoch() == receipt.epoch();
      });
    }
    for (const v1::CancelOrder& cancel : response.cancels()) {
      std::erase_if(held_, [&](const v1::Job& job) {
        return job.name() == cancel.job() && job.epoch() == cancel.epoch();
      });
    }
    held_.insert(held_.end(), response.jobs().begin(), response.jobs().end());
  }

  // Measures the jobs at hand, `most` of them.
  void work(size_t most = 100) {
    for (; most > 0 && !held_.empty(); --most) {
      owed_.push_back(measured(held_.front()));
      held_.pop_front();
    }
  }

  const std::deque<v1::Job>& held() const { return held_; }
  const std::vector<v1::JobResult>& owed() const { return owed_; }
  void owe(v1::JobResult result) { owed_.push_back(std::move(result)); }
  void set_sequence(int64_t sequence) { sequence_ = sequence; }
  int64_t sequence() const { return sequence_; }
  const v1::Device& description() const { return description_; }

 private:
  std::string name_, session_;
  std::vector<std::string> devices_;
  v1::Device description_;
  std::deque<v1::Job> held_;
  std::vector<v1::JobResult> owed_;
  int64_t sequence_ = 0;
  bool describe_ = true;
};

// ---- what must hold in every database ----------------------------------------------------------

// Rows of one column, as text.
inline std::vector<std::string> column(Database& database, const std::string& sql) {
  std::vector<std::string> rows;
  const absl::Status status = database.read(5, [&](Transaction& tx) -> absl::Status {
    rows.clear();
    Query query = tx.query(sql);
    while (query.next()) rows.push_back(query.text(0));
    return query.status();
  });
  if (!status.ok()) rows = {status.ToString()};
  return rows;
}

// Everything that is wrong with a service's database, as sentences: none.
inline std::vector<std::string> defects_of(Database& database, Store& store) {
  std::vector<std::string> wrong;
  const auto check = store.check();
  if (!check.ok()) return {check.status().ToString()};
  for (const std::string& line : *check) wrong.push_back(line);
  const std::pair<const char*, const char*> rules[] = {
      {"a gap or a repetition in a study's events",
       "SELECT study FROM events GROUP BY study HAVING count(*) <> max(sequence) OR "
       "min(sequence) <> 1"},
      {"an ended study with open jobs",
       "SELECT s.id FROM studies s JOIN jobs j ON j.study = s.id WHERE s.state NOT IN "
       "('queued','running') AND j.state IN ('queued','leased')"},
      {"an ended study without an end", "SELECT id FROM studies WHERE state NOT IN "
       "('queued','running') AND ended_ms = 0"},
      {"a lease without a holder",
       "SELECT id FROM jobs WHERE state = 'leased' AND (device = '' OR agent = '' OR "
       "lease_until = 0 OR epoch < 1 OR attempt < 1)"},
      {"a queued job with a holder", "SELECT id FROM jobs WHERE state = 'queued' AND device <> ''"},
      {"a job with more attempts than epochs",
       "SELECT id FROM jobs WHERE attempt > epoch"},
      {"a done job without a digest",
       "SELECT id FROM jobs WHERE state = 'done' AND (digest = '' OR ended_ms = 0)"},
      {"trials of a study that are not its workloads'",
       "SELECT s.id FROM studies s WHERE s.trials <> (SELECT sum(trials) FROM study_workloads w "
       "WHERE w.study = s.id)"},
      {"measurements that are not their jobs'",
       "SELECT 'x' WHERE (SELECT count(*) FROM measurements m JOIN candidates c ON c.id = "
       "m.candidate JOIN keys k ON k.id = c.key WHERE k.workload IN (SELECT workload FROM "
       "study_workloads)) <> (SELECT coalesce(sum(candidates),0) FROM jobs WHERE state = 'done')"}};
  for (const auto& [what, sql] : rules) {
    for (const std::string& row : column(database, sql)) wrong.push_back(concat(what, ": ", row));
  }
  return wrong;
}

}  // namespace lw
