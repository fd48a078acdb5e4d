// A job's candidates are replayed, lowered and handed to the device's measurer all at once, which
// builds and measures them side by side; each outcome leaves as soon as it is there, so that a
// device host that dies has said what it knew. Candidates that fail through nobody's fault are
// tried once more here; the server decides about the rest.
#include "src/agent/job.h"

#include <chrono>
#include <cmath>
#include <limits>
#include <set>
#include <thread>

#include "cost_model/cost_model.h"
#include "schedules/steps.h"
#include "schedules/targets/target.h"
#include "src/api/run/devices.h"
#include "src/api/task.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/message.h"
#include "src/expr/expr.h"
#include "src/expr/language/text.h"
#include "src/lower/lower.h"
#include "src/measure/local.h"
#include "src/net/times.h"
#include "src/search/retry.h"
#include "tuner_db/invariants.h"
#include "tuner_db/key_terms.h"
#include "tuner_db/messages/messages.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

constexpr double kPollSeconds = 0.05;
constexpr double kDefaultTimeout = 600;
constexpr int kMostCandidates = 4096;
constexpr int kMostRounds = 1000;

// What a measurer is prepared for.
std::string identity(const v1::Job& job) {
  v1::Job same;
  same.set_program(job.program());
  *same.mutable_target() = job.target();
  same.set_threads(job.threads());
  same.set_cache(job.cache());
  same.set_seed(job.seed());
  same.set_backend(job.backend());
  return same.SerializeAsString();
}

struct Flying {
  Candidate candidate;
  int index = 0;
  int tries = 1;
};

absl::StatusOr<Candidate> make_candidate(const Task& task, const v1::CandidateSpec& spec) {
  ASSIGN_OR_RETURN(const Trace trace, parse_trace(spec.trace()));
  ASSIGN_OR_RETURN(const Nest nest, replay(task.start(), trace));
  ASSIGN_OR_RETURN(Kernel kernel, lower(nest));
  Candidate candidate;
  candidate.kernel = std::make_shared<const Kernel>(std::move(kernel));
  candidate.draft_us = draft_us(nest);
  candidate.incumbent_us = spec.incumbent_us();
  candidate.verify = spec.verify();
  return candidate;
}

v1::CandidateOutcome report(const v1::Job& job, const Flying& flying, const Outcome& o) {
  Measurement m;
  m.kernel_hash = hash(*flying.candidate.kernel);
  m.verdict = o.verdict;
  m.detail = as_detail(o.detail);
  m.samples_us = o.samples_us;
  m.inner = o.inner;
  m.time_us = o.time_us, m.ci_low_us = o.ci_low_us, m.ci_high_us = o.ci_high_us;
  m.time_kind = o.time_kind;
  m.verified = o.verified;
  // As the stores keep it.
  m.max_rel_error =
      std::isnan(o.max_rel_error) ? std::numeric_limits<double>::infinity() : o.max_rel_error;
  m.build_s = o.build_s;
  m.seed = job.seed();
  m.environment = o.environment;
  m.unix_ms = unix_ms();
  if (const std::string what = defect(m); !what.empty()) {
    return failed_candidate(flying.index, v1::VERDICT_DEVICE_UNHEALTHY,
                            concat("the measurement does not add up: ", what));
  }
  v1::CandidateOutcome outcome;
  outcome.set_index(flying.index);
  *outcome.mutable_measurement() = to_proto(m);
  return outcome;
}

// Whether it could sleep so long without being stopped.
bool sleep_ms(int ms, const JobHooks& hooks) {
  const double until = now() + ms * 1e-3;
  for (double left = until - now(); left > 0; left = until - now()) {
    if (hooks.stopped()) return false;
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(left, 0.01)));
  }
  return true;
}

}  // namespace

absl::Status check_job(const v1::Job& job) {
  const auto bad = [](const char* field, std::string_view what) {
    return absl::InvalidArgumentError(concat("job.", field, ": ", what));
  };
  if (job.name().empty()) return bad("name", "empty");
  if (job.kind() != v1::JOB_KIND_MEASURE && job.kind() != v1::JOB_KIND_COMPARE) {
    return bad("kind", "not one that this version knows");
  }
  if (job.candidates().empty() || job.candidates_size() > kMostCandidates) {
    return bad("candidates", concat("must be 1 to ", kMostCandidates));
  }
  std::set<int> indices;
  for (const v1::CandidateSpec& spec : job.candidates()) {
    if (const absl::StatusOr<Trace> trace = parse_trace(spec.trace()); !trace.ok()) {
      return bad("candidates", std::string(trace.status().message()));
    }
    if (!indices.insert(spec.index()).second) return bad("candidates", "an index stands twice");
    if (!std::isfinite(spec.incumbent_us()) || spec.incumbent_us() < 0) {
      return bad("candidates", "incumbent_us is no time");
    }
  }
  if (job.threads() < 1) return bad("threads", "must be at least 1");
  Cache cache = Cache::kWarm;
  if (!parse_cache(job.cache(), &cache)) return bad("cache", "warm or cold");
  if (job.kind() == v1::JOB_KIND_COMPARE && (job.rounds() < 1 || job.rounds() > kMostRounds)) {
    return bad("rounds", concat("must be 1 to ", kMostRounds));
  }
  return absl::OkStatus();
}

double job_timeout(const v1::Job& job) {
  const double seconds = seconds_of(job.timeout());
  return seconds > 0 ? seconds : kDefaultTimeout;
}

v1::JobResult failed_job(const v1::Job& job, v1::Verdict why, const std::string& detail) {
  v1::JobResult result;
  result.set_job(job.name());
  result.set_epoch(job.epoch());
  result.set_failure(why);
  result.set_failure_detail(as_detail(detail));
  put_outcomes({}, &result);
  return result;
}

v1::JobResult refused_job(const v1::Job& job, v1::JobRefusal why, const std::string& detail) {
  v1::JobResult result = failed_job(job, v1::VERDICT_UNSPECIFIED, detail);
  result.set_abandoned(true);
  result.set_refusal(why);
  return result;
}

v1::CandidateOutcome failed_candidate(int index, v1::Verdict why, const std::string& detail) {
  v1::CandidateOutcome outcome;
  outcome.set_index(index);
  outcome.mutable_measurement()->set_verdict(why);
  outcome.mutable_measurement()->set_detail(as_detail(detail));
  outcome.mutable_measurement()->set_inner(1);
  outcome.mutable_measurement()->set_unix_ms(unix_ms());
  return outcome;
}

void put_outcomes(const std::map<int, v1::CandidateOutcome>& outcomes, v1::JobResult* result) {
  result->clear_outcomes();
  for (const auto& [index, outcome] : outcomes) *result->add_outcomes() = outcome;
  result->set_digest(result_digest(*result));
}

v1::JobResult JobBench::run(const v1::Job& job, const JobHooks& hooks) {
  if (absl::Status good = check_job(job); !good.ok()) {
    return refused_job(job, v1::JOB_REFUSAL_VERSION, std::string(good.message()));
  }
  const double begin = now(), deadline = begin + job_timeout(job);
  hooks.phase(v1::JOB_PHASE_PREPARING);
  v1::JobRefusal refusal = v1::JOB_REFUSAL_UNSPECIFIED;
  if (absl::Status ready = prepare(job, &refusal); !ready.ok()) {
    if (refusal != v1::JOB_REFUSAL_UNSPECIFIED) {
      return refused_job(job, refusal, std::string(ready.message()));
    }
    // A job that asks for what the device lacks is the device's misfortune, anything else the
    // job's.
    const bool device = ready.code() == absl::StatusCode::kFailedPrecondition ||
                        ready.code() == absl::StatusCode::kResourceExhausted;
    return failed_job(job, device ? v1::VERDICT_DEVICE_UNHEALTHY : v1::VERDICT_WORKER_LOST,
                      std::string(ready.message()));
  }
  const double prepared = now();
  hooks.phase(v1::JOB_PHASE_MEASURING);
  v1::JobResult result;
  result.set_job(job.name());
  result.set_epoch(job.epoch());
  if (!measure(job, hooks, deadline)) {
    result.set_abandoned(hooks.stopped());
    prepared_.clear();  // what still runs ends with it
    measurer_.reset();
  }
  *result.mutable_prepare_time() = duration_of(prepared - begin);
  *result.mutable_run_time() = duration_of(now() - prepared);
  return result;
}

absl::Status JobBench::prepare(const v1::Job& job, v1::JobRefusal* refusal) {
  std::string wanted = identity(job);
  if (wanted == prepared_) return absl::OkStatus();
  prepared_.clear();
  measurer_.reset();
  // What the server has written is right for its version.
  *refusal = v1::JOB_REFUSAL_VERSION;
  ASSIGN_OR_RETURN(Program program, parse_program(job.program(), "job.program"));
  const std::string id = workload_id(program);
  if (id != job.workload_id()) {
    return absl::InvalidArgumentError(concat("job.program: its id is ", id.substr(0, 12), " here, ",
                                             job.workload_id().substr(0, 12),
                                             " at the server: they speak different versions"));
  }
  ASSIGN_OR_RETURN(Target target, from_proto(job.target()));
  const std::string name = program.name;
  ASSIGN_OR_RETURN(const Task task,
                   make_task(std::move(program), name, std::move(target), job.threads()));
  *refusal = v1::JOB_REFUSAL_BACKEND;
  if (!job.backend().empty() && job.backend() != task.key().backend) {
    return absl::FailedPreconditionError(concat("job.backend: ", job.backend(), " is wanted, ",
                                                task.key().backend, " makes the kernels here"));
  }
  *refusal = v1::JOB_REFUSAL_TOO_LARGE;
  if (const double present = spec_.kind->memory(spec_); present > 0) {
    RETURN_IF_ERROR(check_measurable(*task.program(), present));
  }
  *refusal = v1::JOB_REFUSAL_UNSPECIFIED;
  Key key = task.key();
  key.cache = job.cache();
  task_ = with_key(task, key);
  ASSIGN_OR_RETURN(measurer_, spec_.kind->make_measurer(spec_, *task_, job.seed()));
  prepared_ = std::move(wanted);
  return absl::OkStatus();
}

// False: stopped, or out of time: the measurer still holds work.
bool JobBench::measure(const v1::Job& job, const JobHooks& hooks, double deadline) {
  std::map<int64_t, Flying> flying;
  std::vector<Candidate> batch;
  for (const v1::CandidateSpec& spec : job.candidates()) {
    absl::StatusOr<Candidate> candidate = make_candidate(*task_, spec);
    if (!candidate.ok()) {
      hooks.outcome(failed_candidate(spec.index(), v1::VERDICT_BUILD_ERROR,
                                     std::string(candidate.status().message())));
      continue;
    }
    candidate->ticket = spec.index();
    candidate->effort = job.kind() == v1::JOB_KIND_COMPARE ? 2 : 1;
    batch.push_back(*candidate);
    flying[spec.index()] = {*std::move(candidate), spec.index()};
  }
  if (!sleep_ms(spec_.delay_ms * static_cast<int>(batch.size()), hooks)) return false;
  if (job.kind() == v1::JOB_KIND_COMPARE) {
    std::vector<int64_t> tickets;
    for (const Candidate& candidate : batch) tickets.push_back(candidate.ticket);
    const std::vector<Outcome> outcomes = measurer_->interleave(std::move(batch), job.rounds());
    CHECK(outcomes.size() == tickets.size());
    for (size_t i = 0; i < tickets.size(); ++i) {
      hooks.outcome(report(job, flying[tickets[i]], outcomes[i]));
    }
    return true;
  }
  measurer_->submit(std::move(batch));
  while (!flying.empty()) {
    if (hooks.stopped()) return false;
    if (now() > deadline) {
      for (const auto& [ticket, left] : flying) {
        hooks.outcome(failed_candidate(left.index, v1::VERDICT_WORKER_LOST,
                                       "the job's time was over before this candidate's turn"));
      }
      return false;
    }
    for (const Outcome& o : measurer_->poll(kPollSeconds)) {
      const std::map<int64_t, Flying>::iterator it = flying.find(o.ticket);
      CHECK(it != flying.end());
      if (is_retried(o.verdict) && it->second.tries < kJobTries) {
        ++it->second.tries;
        measurer_->submit({it->second.candidate});
        continue;
      }
      hooks.outcome(report(job, it->second, o));
      flying.erase(it);
    }
  }
  return true;
}

}  // namespace lw
