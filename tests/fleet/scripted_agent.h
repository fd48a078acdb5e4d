// An agent with a device of the null devices' class, on a thread of its own, that takes jobs like any
// other and says of each candidate what a script makes up.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "loopwright/v1/agent.grpc.pb.h"
#include "schedules/steps.h"
#include "schedules/targets/target.h"
#include "src/api/task.h"
#include "src/base/clock.h"
#include "src/base/hash.h"
#include "src/build/build.h"
#include "src/expr/expr.h"
#include "src/lower/lower.h"
#include "src/net/times.h"
#include "src/net/words.h"
#include "src/search/null_measurer.h"
#include "src/serve/rows/clock.h"
#include "tests/support/store_fixture.h"
#include "tuner_db/messages/messages.h"

namespace lw {

// What is asked of it, and what a null device would measure (0: it cannot be lowered).
struct Question {
  std::string trace;
  double true_us = 0;
  bool compared = false;
};
// OK and verified, at that time; or the failure.
struct Claim {
  Verdict verdict = Verdict::kOk;
  double us = 0;
};

class ScriptedAgent {
 public:
  using Script = std::function<Claim(const Question&)>;

  ScriptedAgent(const std::shared_ptr<grpc::Channel>& channel, std::string name, Script script)
      : stub_(loopwright::v1::AgentService::NewStub(channel)), name_(std::move(name)),
        script_(std::move(script)), thread_([this] { run(); }) {}
  ~ScriptedAgent() {
    over_ = true;
    thread_.join();
  }
  int jobs() const { return jobs_; }

 private:
  using Job = loopwright::v1::Job;
  using JobResult = loopwright::v1::JobResult;

  void run() {
    loopwright::v1::SynchronizeRequest call;
    call.set_agent("agents/" + name_);
    call.set_session(make_id(1));
    loopwright::v1::DeviceState& device = *call.add_devices();
    device.set_name(absl::StrCat("devices/", name_, "-0"));
    device.set_health(loopwright::v1::DEVICE_HEALTH_OK);
    const Target target = *find_target("x86_avx2");
    loopwright::v1::Device& description = *device.mutable_description();
    *description.mutable_target() = to_proto(target);
    description.set_target_id(sha256(to_text(target)));
    description.set_backend((*find_backend(target.architecture))->version());
    description.set_kind("null");
    description.set_time_kind(loopwright::v1::TIME_KIND_ESTIMATED);
    description.set_slots(1);
    description.mutable_words()->Assign(known_words().begin(), known_words().end());
    while (!over_) {
      call.set_sequence(call.sequence() + 1);
      device.set_wanted(1);
      *call.mutable_wait() = duration_of(0.2);
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
      loopwright::v1::SynchronizeResponse answer;
      if (!stub_->Synchronize(&context, call, &answer).ok()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        continue;                          // the same results once more
      }
      call.clear_results();
      device.clear_held();
      for (const Job& job : answer.jobs()) *call.add_results() = answer_of(job);
    }
  }

  JobResult answer_of(const Job& job) {
    ++jobs_;
    JobResult result;
    result.set_job(job.name());
    result.set_epoch(job.epoch());
    for (const loopwright::v1::CandidateSpec& candidate : job.candidates()) {
      Question question{candidate.trace(), true_us(job, candidate.trace()),
                        job.kind() == loopwright::v1::JOB_KIND_COMPARE};
      const Claim claim = question.true_us > 0 ? script_(question)
                                               : Claim{Verdict::kBuildError, 0};
      Measurement m = claim.verdict == Verdict::kOk
                          ? make_measurement(1, {claim.us, claim.us, claim.us})
                          : make_failure(1, claim.verdict);
      m.trace.clear();
      m.time_kind = TimeKind::kEstimated;
      loopwright::v1::CandidateOutcome& outcome = *result.add_outcomes();
      outcome.set_index(candidate.index());
      *outcome.mutable_measurement() = to_proto(m);
    }
    result.set_digest(result_digest(result));
    return result;
  }

  static double true_us(const Job& job, const std::string& text) {
    const absl::StatusOr<Program> program = parse_program(job.program(), "job");
    if (!program.ok()) return 0;
    const absl::StatusOr<Task> task =
        make_task(*program, "job", *from_proto(job.target()), job.threads());
    const absl::StatusOr<Trace> trace = parse_trace(text);
    if (!task.ok() || !trace.ok()) return 0;
    const absl::StatusOr<Nest> nest = replay(task->start(), *trace);
    if (!nest.ok()) return 0;
    const absl::StatusOr<Kernel> kernel = lower(*nest);
    return kernel.ok() ? null_time_us(*kernel, job.threads()) : 0;
  }

  const std::unique_ptr<loopwright::v1::AgentService::Stub> stub_;
  const std::string name_;
  const Script script_;
  std::atomic<bool> over_ = false;
  std::atomic<int> jobs_ = 0;
  std::thread thread_;
};

}  // namespace lw
