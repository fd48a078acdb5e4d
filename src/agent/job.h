// Running a job where its device is: from the text of a program and of traces to verified
// measurements. Knows nothing of servers, leases or connections.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "loopwright/v1/agent.pb.h"
#include "src/agent/device.h"
#include "src/search/measurer.h"

namespace lw {

// What whoever runs a job is told and may say meanwhile. All are called from the running thread.
struct JobHooks {
  std::function<void(loopwright::v1::JobPhase)> phase = [](loopwright::v1::JobPhase) {};
  std::function<void(const loopwright::v1::CandidateOutcome&)> outcome =
      [](const loopwright::v1::CandidateOutcome&) {};
  std::function<bool()> stopped = [] { return false; };  // asked some twenty times a second
};

// Keeps the prepared measurer of the last workload: preparing one (inputs, oracles, the reference
// kernel) costs 0.2 to 0.5 s, a candidate about 0.03. Thread-compatible; always the same thread.
class JobBench {
 public:
  explicit JobBench(DeviceSpec spec) : spec_(std::move(spec)) {}
  // Outcomes go to the hook, each candidate's once; the result carries none. It has a failure when
  // the job as a whole did not work, and `abandoned` when it was stopped. Candidates for which
  // the job's timeout was too short end as WORKER_LOST. It has a refusal where the job is not for
  // this device or this version.
  loopwright::v1::JobResult run(const loopwright::v1::Job& job, const JobHooks& hooks);

 private:
  // Sets `refusal` where that is what its error means.
  absl::Status prepare(const loopwright::v1::Job& job, loopwright::v1::JobRefusal* refusal);
  bool measure(const loopwright::v1::Job& job, const JobHooks& hooks, double deadline);

  const DeviceSpec spec_;
  std::string prepared_;  // identity of what is below
  std::optional<Task> task_;
  std::unique_ptr<Measurer> measurer_;
};

// Whether the job adds up: kInvalidArgument names the field.
absl::Status check_job(const loopwright::v1::Job& job);
// From when it runs, in seconds.
double job_timeout(const loopwright::v1::Job& job);

// What a result says when nothing was measured, for whatever reason.
loopwright::v1::JobResult failed_job(const loopwright::v1::Job& job, loopwright::v1::Verdict why,
                                     const std::string& detail);
// Given back, without blame.
loopwright::v1::JobResult refused_job(const loopwright::v1::Job& job,
                                      loopwright::v1::JobRefusal why, const std::string& detail);
loopwright::v1::CandidateOutcome failed_candidate(int index, loopwright::v1::Verdict why,
                                                  const std::string& detail);

// Puts the outcomes in, in order of their index, and their digest.
void put_outcomes(const std::map<int, loopwright::v1::CandidateOutcome>& outcomes,
                  loopwright::v1::JobResult* result);

}  // namespace lw
