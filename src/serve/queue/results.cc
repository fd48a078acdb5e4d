// A job that fails through its device (blame.h) is tried elsewhere or later, given up at last, and never
// charged. What is charged to candidates are outcomes, which are data: they are stored, counted and
// learned from.
#include "src/serve/queue/results.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/measure/judge/plausible.h"
#include "src/net/times.h"
#include "src/search/progress.h"
#include "src/serve/messages/names.h"
#include "src/serve/queue/blame.h"
#include "src/serve/queue/orphans.h"
#include "tuner_db/best.h"
#include "tuner_db/invariants.h"
#include "tuner_db/messages/messages.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

constexpr size_t kMostSamples = 64;        // twice what is ever taken of a candidate at once: more
                                           // would outvote everybody else's
constexpr size_t kLongestEnvironment = 64 << 10;

v1::Receipt receipt(const v1::JobResult& result, v1::ReceiptKind kind, std::string detail = "") {
  v1::Receipt made;
  made.set_job(result.job());
  made.set_epoch(result.epoch());
  made.set_kind(kind);
  made.set_detail(std::move(detail));
  return made;
}

double bounded_s(const google::protobuf::Duration& duration) {
  return std::clamp(seconds_of(duration), 0.0, 1e6);
}

// Where a job's time went: building its candidates, making its inputs ready, running them.
void note_times(const v1::JobResult& result, Changes* changes) {
  changes->run_s.push_back(bounded_s(result.run_time()));
  changes->cost_s["measure"] += bounded_s(result.run_time());
  changes->cost_s["prepare"] += bounded_s(result.prepare_time());
  for (const v1::CandidateOutcome& outcome : result.outcomes()) {
    const double build_s = outcome.measurement().build_s();
    if (build_s > 0 && std::isfinite(build_s)) changes->cost_s["build"] += std::min(build_s, 1e6);
  }
}

std::string unknown_verdict(v1::Verdict verdict) {
  return concat("verdict ", static_cast<int>(verdict), " is not one that this version knows");
}

// Whose word it is, whatever the outcome says of that.
void set_origin(const JobRow& job, Measurement* m) {
  m->counts = true;
  m->actor = concat("agent/", job.agent);
  m->device = job.device;
  m->annulled.clear();
}

// The measurements that the outcomes say, in the job's order. kInvalidArgument: they do not add up.
absl::StatusOr<std::vector<Measurement>> measurements_of(const JobRow& job,
                                                         const v1::JobResult& result,
                                                         int64_t begun_ms, int64_t now_ms) {
  if (result.outcomes_size() != job.candidates) {
    return absl::InvalidArgumentError(concat(result.outcomes_size(), " outcomes of ",
                                             job.candidates, " candidates"));
  }
  std::vector<Measurement> all(job.candidates);
  std::vector<bool> seen(job.candidates, false);
  for (const v1::CandidateOutcome& outcome : result.outcomes()) {
    const int i = outcome.index();
    if (i < 0 || i >= job.candidates || seen[i]) {
      return absl::InvalidArgumentError(concat("outcome of candidate ", i, " of ", job.candidates));
    }
    seen[i] = true;
    if (!v1::Verdict_IsValid(outcome.measurement().verdict())) {
      return absl::UnimplementedError(unknown_verdict(outcome.measurement().verdict()));
    }
    ASSIGN_OR_RETURN(Measurement m, from_proto(outcome.measurement()));
    if (m.samples_us.size() > kMostSamples || m.environment.size() > kLongestEnvironment) {
      return absl::InvalidArgumentError(
          concat("candidate ", i, " has ", m.samples_us.size(), " samples and an environment of ",
                 m.environment.size(), " bytes; at most ", kMostSamples, " and ",
                 kLongestEnvironment));
    }
    m.detail = as_detail(m.detail);
    m.trace = job.payload.candidates(i).trace();
    m.source = job.sources[i];
    m.seed = job.payload.seed();
    m.unix_ms = now_ms;
    m.wall_s = 1e-3 * static_cast<double>(now_ms - begun_ms);
    set_origin(job, &m);
    all[i] = std::move(m);
  }
  return all;
}

struct Owner {
  StudyRow study;
  StudyWorkloadRow workload;
};
absl::StatusOr<Owner> owner_of(Transaction& tx, const JobRow& job) {
  ASSIGN_OR_RETURN(std::optional<StudyRow> study, find_study(tx, job.study));
  ASSIGN_OR_RETURN(std::vector<StudyWorkloadRow> workloads, workloads_of(tx, job.study));
  if (!study || job.position < 0 || job.position >= static_cast<int>(workloads.size())) {
    return absl::DataLossError(concat(job_name(job.id), " belongs to no study"));
  }
  return Owner{*std::move(study), std::move(workloads[job.position])};
}

// Stores them and moves the counters; tells the study's watchers.
absl::Status count(WriteTransaction& tx, const JobRow& job, Owner& owner,
                   std::vector<Measurement> done, double prepare_s, double run_s,
                   int64_t now_ms, Changes* changes) {
  StudyWorkloadRow& workload = owner.workload;
  const double best_before = workload.best_us;
  const Key key = key_of(owner.study, workload);
  for (Measurement& m : done) {
    if (m.verdict != Verdict::kOk) m.time_kind = workload.time_kind;  // a failure has no time
  }
  RETURN_IF_ERROR(store_in(tx)->append(key, done));
  changes->keys.push_back(key);
  SearchProgress progress;                 // of this job, beside what is known
  progress.time_kind = workload.time_kind;
  progress.zero_us = workload.zero_us, progress.best_us = workload.best_us;
  for (const Measurement& m : done) {
    ++changes->verdicts[std::string(verdict_name(m.verdict))];
    progress.count(m);
    if (leads(m, progress.best_us, progress.time_kind)) {
      // Of a trace or a kernel that was withdrawn while the job was out.
      ASSIGN_OR_RETURN(const std::vector<Withdrawal> withdrawn, store_in(tx)->withdrawn(key));
      if (is_out(withdrawn, m.trace, m.kernel_hash)) continue;
    }
    progress.lead(m);
  }
  workload.trials += progress.trials;
  workload.failed += progress.failed;
  workload.zero_us = progress.zero_us;
  workload.best_us = progress.best_us;
  owner.study.trials += progress.trials;
  owner.study.failed += progress.failed;
  workload.busy_s += prepare_s + run_s;
  workload.dead_jobs = 0;
  if (job.payload.kind() == v1::JOB_KIND_MEASURE) {
    workload.measured += job.candidates;
    workload.measured_s += run_s;
  }
  owner.study.updated_ms = now_ms;
  RETURN_IF_ERROR(update_workload(tx, workload));
  RETURN_IF_ERROR(update_study(tx, owner.study));
  v1::StudyEvent event;
  event.set_kind(workload.best_us != best_before ? v1::StudyEvent::KIND_IMPROVED
                                                 : v1::StudyEvent::KIND_BATCH);
  event.set_workload(workload.name);
  event.set_job(job_name(job.id));
  event.set_device(device_name(job.device));
  event.set_best_us(workload.best_us);
  event.set_time_kind(to_proto(workload.time_kind));
  event.set_detail(workload.note);
  event.set_trials(owner.study.trials);
  event.set_failed(owner.study.failed);
  event.set_state(owner.study.state);
  event.set_elapsed_s(1e-3 * static_cast<double>(now_ms - owner.study.created_ms));
  changes->studies.insert(job.study);
  return add_event(tx, job.study, now_ms, std::move(event));
}

absl::Status end_job(WriteTransaction& tx, JobRow& job, const std::string& digest, int64_t now_ms) {
  job.state = v1::JOB_STATE_DONE;
  job.ended_ms = now_ms;
  job.digest = digest;
  job.detail.clear();
  return update_job(tx, job);
}

absl::Status device_did_well(WriteTransaction& tx, std::string_view device) {
  return tx.query("UPDATE devices SET failures = 0, jobs_done = jobs_done + 1 WHERE id = ?",
                  device).run();
}

int64_t backoff_ms(const JobRow& job, const LeaseRules& rules) {
  return rules.backoff_ms << std::clamp(job.attempt - 1, 0, 6);
}

struct JobFailure {
  Verdict verdict;                         // one that is retried
  std::string detail;
};

// The job failed as a whole. Whatever is to blame for a single measurement, of a job it is the
// device: otherwise the same candidates would come back for ever.
absl::Status job_failed(WriteTransaction& tx, JobRow job, const JobFailure& failure,
                        const LeaseRules& rules, int64_t now_ms, Changes* changes) {
  const std::string name(verdict_name(failure.verdict));
  ++changes->attempts[name];
  changes->discards[name] += job.candidates;
  const std::string detail = as_detail(failure.detail);
  const std::string why = concat(name, ": ", detail);
  const bool is_impossible = detail.find(kImpossibleTime) != std::string::npos;
  if (is_impossible) RETURN_IF_ERROR(suspect_device(tx, job, detail, rules, now_ms));
  // The job first: a quarantine takes from the device what it still holds.
  RETURN_IF_ERROR(release_job(tx, job, why, rules, now_ms + backoff_ms(job, rules), now_ms,
                              changes));
  if (is_impossible) return absl::OkStatus();
  return blame_device(tx, job, name, detail, rules, now_ms, changes);
}

// Of the measurements those below what the workload takes on its target at the least.
std::vector<Measurement> impossible_of(const std::vector<Measurement>& all, double least_us) {
  std::vector<Measurement> found;
  for (const Measurement& m : all) {
    const bool is = m.verdict == Verdict::kOk && impossible_sample(m.samples_us, least_us) > 0;
    if (is) found.push_back(m);
  }
  return found;
}

// They are kept, annulled, for whoever wants to see them; whoever made them up is not believed in
// what else it says of the job.
absl::Status refuse_impossible(WriteTransaction& tx, const JobRow& job, const Owner& owner,
                               std::vector<Measurement> impossible,
                               const LeaseRules& rules, int64_t now_ms, Changes* changes,
                               std::string* why) {
  const Key key = key_of(owner.study, owner.workload);
  for (Measurement& m : impossible) {
    *why = describe_impossible(impossible_sample(m.samples_us, owner.workload.least_us),
                               owner.workload.least_us);
    m.annulled = annulment_text({"daemon", *why, now_ms});
  }
  RETURN_IF_ERROR(store_in(tx)->append(key, impossible));
  const Doubt doubt = {"impossible", describe(key), concat("agent/", job.agent), job.device, *why};
  RETURN_IF_ERROR(note_doubt(tx, doubt, now_ms, changes));
  return job_failed(tx, job, {Verdict::kDeviceUnhealthy, *why}, rules, now_ms, changes);
}

struct JobRefused {
  v1::JobRefusal why;
  std::string detail;
};

// The job is not for the device, through nobody's fault: it is tried elsewhere, or later. An agent
// that goes on refusing what the queue holds rests, or it would use up the attempts of all jobs;
// what is too large is the job's own matter.
absl::Status job_refused(WriteTransaction& tx, JobRow job, const JobRefused& refused,
                         const LeaseRules& rules, int64_t now_ms, Changes* changes) {
  ++changes->attempts["refused"];
  if (refused.why != v1::JOB_REFUSAL_TOO_LARGE) {
    RETURN_IF_ERROR(note_loss(tx, job.agent, rules, now_ms));
  }
  const std::string why = concat("refused: ", as_detail(refused.detail));
  if (refused.why == v1::JOB_REFUSAL_TOO_LARGE && job.attempt >= rules.most_refusals) {
    return give_up_job(tx, job, why, now_ms, changes);
  }
  const int64_t run_after_ms = now_ms + backoff_ms(job, rules);
  return release_job(tx, std::move(job), why, rules, run_after_ms, now_ms, changes);
}

}  // namespace

absl::StatusOr<v1::Receipt> accept_result(WriteTransaction& tx, const Holder& holder,
                                          const v1::JobResult& result, const LeaseRules& rules,
                                          int64_t now_ms, Changes* changes) {
  const absl::StatusOr<int64_t> id = parse_job_name(result.job(), "results.job");
  if (!id.ok())
    return receipt(result, v1::RECEIPT_KIND_REFUSED, std::string(id.status().message()));
  ASSIGN_OR_RETURN(std::optional<JobRow> found, find_job(tx, *id));
  if (!found) return receipt(result, v1::RECEIPT_KIND_REFUSED, "there is no such job");
  JobRow& job = *found;
  if (job.state == v1::JOB_STATE_DONE && job.epoch == result.epoch() &&
      job.agent == holder.agent && !result.digest().empty() && job.digest == result.digest()) {
    return receipt(result, v1::RECEIPT_KIND_DUPLICATE);
  }
  const bool current = job.state == v1::JOB_STATE_LEASED && job.epoch == result.epoch() &&
                       job.agent == holder.agent && job.lease_until >= now_ms;
  if (!current) {
    if (job.state == v1::JOB_STATE_LEASED && job.agent == holder.agent &&
        job.epoch == result.epoch()) {
      ++changes->expired;                  // nobody has noticed yet
      RETURN_IF_ERROR(lose_job(tx, job, rules, now_ms, changes));
    }
    if (!result.abandoned()) {
      RETURN_IF_ERROR(keep_orphan(tx, job, holder.agent, result, now_ms));
    }
    return receipt(result, v1::RECEIPT_KIND_LEASE_LOST);
  }
  // What this version, not the agent, finds wrong with it.
  const auto refuse = [&](v1::JobRefusal why,
                          const std::string& detail) -> absl::StatusOr<v1::Receipt> {
    RETURN_IF_ERROR(job_refused(tx, job, {why, detail}, rules, now_ms, changes));
    return receipt(result, v1::RECEIPT_KIND_REFUSED, detail);
  };
  const auto fail = [&](Verdict verdict, const std::string& detail) {
    return job_failed(tx, job, {verdict, detail}, rules, now_ms, changes);
  };
  if (result.refusal() != v1::JOB_REFUSAL_UNSPECIFIED) {
    RETURN_IF_ERROR(job_refused(tx, job, {result.refusal(), result.failure_detail()}, rules, now_ms,
                                changes));
    return receipt(result, v1::RECEIPT_KIND_STORED);
  }
  if (result.abandoned()) {
    RETURN_IF_ERROR(note_loss(tx, job.agent, rules, now_ms));
    RETURN_IF_ERROR(release_job(tx, job, "given back by its agent", rules, now_ms, now_ms,
                                changes));
    return receipt(result, v1::RECEIPT_KIND_STORED);
  }
  const std::optional<Verdict> failure = from_proto(result.failure());
  if (!failure && result.failure() != v1::VERDICT_UNSPECIFIED) {
    return refuse(v1::JOB_REFUSAL_VERSION, unknown_verdict(result.failure()));
  }
  if (failure && is_retried(*failure)) {
    RETURN_IF_ERROR(fail(*failure, result.failure_detail()));
    return receipt(result, v1::RECEIPT_KIND_STORED);
  }
  ASSIGN_OR_RETURN(const std::optional<DeviceRow> device, find_device(tx, job.device));
  if (!job.backend.empty() && device && device->description.backend() != job.backend) {
    // The device has become another since it took the job.
    return refuse(v1::JOB_REFUSAL_BACKEND, concat("measured with ", device->description.backend(),
                                                  ", not ", job.backend));
  }
  ASSIGN_OR_RETURN(Owner owner, owner_of(tx, job));
  absl::StatusOr<std::vector<Measurement>> all =
      measurements_of(job, result, owner.study.created_ms, now_ms);
  if (all.ok() && result.digest() != result_digest(result)) {
    all = absl::InvalidArgumentError("the digest is not that of the outcomes");
  }
  if (absl::IsUnimplemented(all.status())) {  // a newer agent's
    return refuse(v1::JOB_REFUSAL_VERSION, std::string(all.status().message()));
  }
  if (!all.ok()) {
    const std::string why(all.status().message());
    RETURN_IF_ERROR(fail(Verdict::kDeviceUnhealthy, why));
    return receipt(result, v1::RECEIPT_KIND_REFUSED, why);
  }
  // A job of which nothing could be measured has failed, however it puts it.
  const auto tells_nothing = [](const Measurement& m) { return is_retried(m.verdict); };
  if (!all->empty() && std::all_of(all->begin(), all->end(), tells_nothing)) {
    RETURN_IF_ERROR(fail(all->front().verdict,
                         concat("none of ", all->size(), " candidates could be measured: ",
                                all->front().detail)));
    return receipt(result, v1::RECEIPT_KIND_STORED);
  }
  if (std::vector<Measurement> impossible = impossible_of(*all, owner.workload.least_us);
      !impossible.empty()) {
    std::string why;
    RETURN_IF_ERROR(refuse_impossible(tx, job, owner, std::move(impossible), rules, now_ms, changes,
                                      &why));
    return receipt(result, v1::RECEIPT_KIND_REFUSED, why);
  }
  // What is nobody's fault is no result: the search may propose it again.
  for (const Measurement& m : *all) {
    if (tells_nothing(m)) ++changes->discards[std::string(verdict_name(m.verdict))];
  }
  std::erase_if(*all, tells_nothing);
  ++changes->attempts["done"];
  note_times(result, changes);
  RETURN_IF_ERROR(settle_suspicions(tx, job, rules, now_ms, changes));
  RETURN_IF_ERROR(end_job(tx, job, result.digest(), now_ms));
  RETURN_IF_ERROR(device_did_well(tx, job.device));
  RETURN_IF_ERROR(count(tx, job, owner, *std::move(all), bounded_s(result.prepare_time()),
                        bounded_s(result.run_time()), now_ms,
                        changes));
  return receipt(result, v1::RECEIPT_KIND_STORED);
}

absl::Status charge_candidate(WriteTransaction& tx, const JobRow& job, int64_t now_ms,
                              Changes* changes) {
  ASSIGN_OR_RETURN(Owner owner, owner_of(tx, job));
  if (has_ended(owner.study.state)) return absl::OkStatus();
  Measurement m;
  m.trace = job.payload.candidates(0).trace();
  m.verdict = Verdict::kCrash;
  m.detail = job.detail;
  m.source = job.sources[0];
  m.seed = job.payload.seed();
  m.unix_ms = now_ms;
  m.wall_s = 1e-3 * static_cast<double>(now_ms - owner.study.created_ms);
  set_origin(job, &m);
  return count(tx, job, owner, {std::move(m)}, 0, 0, now_ms, changes);
}

}  // namespace lw
