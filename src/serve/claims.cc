#include "src/serve/claims.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <tuple>

#include "absl/strings/str_replace.h"
#include "src/base/check.h"
#include "src/expr/message.h"
#include "src/serve/names.h"
#include "src/serve/orphans.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

constexpr double kAtHand = 1.5;            // slices of a study on a device

struct Waiting {
  std::string client;
  int priority = 0;
  int64_t job = 0;                         // its next
  double score = 0;
};

// Best first.
absl::StatusOr<std::vector<Waiting>> ranked_clients(Database& database, const Holder& holder,
                                                    const Shares& shares, int64_t now_ms) {
  const std::string_view target = holder.target, backend = holder.backend;
  ASSIGN_OR_RETURN(const std::vector<std::string> clients,
                   distinct_values(database, "jobs", "client",
                                    "state = 'queued' AND target = ? AND backend = ?",
                                    {target, backend}));
  std::vector<Waiting> ranked;
  for (const std::string& client : clients) {
    Query query = database.query(
        "SELECT priority, id FROM jobs WHERE state = 'queued' AND target = ? AND backend = ? AND "
        "client = ? AND run_after <= ? ORDER BY priority DESC, id LIMIT 1",
        target, backend, client, now_ms);
    if (!query.next()) {
      RETURN_IF_ERROR(query.status());
      continue;
    }
    Waiting waiting{client, static_cast<int>(query.integer(0)), query.integer(1), 0};
    const auto running = shares.running.find(client);
    const auto weight = shares.weights.find(client);
    waiting.score = (running == shares.running.end() ? 0 : running->second) + 1;
    waiting.score /= weight == shares.weights.end() ? shares.usual_weight : weight->second;
    waiting.score *= std::exp2(-waiting.priority / 100.0);
    ranked.push_back(std::move(waiting));
  }
  // Equals by age, or the first name would always win where one job runs at a time.
  std::sort(ranked.begin(), ranked.end(), [](const Waiting& a, const Waiting& b) {
    return std::tuple(a.score, -a.priority, a.job) < std::tuple(b.score, -b.priority, b.job);
  });
  return ranked;
}

absl::StatusOr<StudyTurns::Contender> contender_of(Database& database, const std::string& study) {
  StudyTurns::Contender contender;
  contender.study = study;
  Query spent = database.query("SELECT sum(busy_s), sum(measured_s), sum(measured) "
                               "FROM study_workloads WHERE study = ?", study);
  if (spent.next()) {
    contender.busy_s = spent.real(0);
    if (spent.integer(2) > 0) {
      contender.candidate_s = spent.real(1) / static_cast<double>(spent.integer(2));
    }
  }
  RETURN_IF_ERROR(spent.status());
  return contender;
}

// A client's studies with queued jobs of its highest priority, by age.
absl::StatusOr<std::vector<StudyTurns::Contender>> contenders_of(Database& database,
                                                                 const Holder& holder,
                                                                 const Waiting& waiting) {
  ASSIGN_OR_RETURN(const std::vector<std::string> studies,
                   distinct_values(database, "jobs", "study",
                                    "state = 'queued' AND target = ? AND backend = ? AND "
                                    "client = ? AND priority = ?",
                                    {std::string_view(holder.target),
                                     std::string_view(holder.backend),
                                     std::string_view(waiting.client),
                                     int64_t{waiting.priority}}));
  std::vector<StudyTurns::Contender> contenders;
  for (const std::string& study : studies) {
    ASSIGN_OR_RETURN(StudyTurns::Contender contender, contender_of(database, study));
    contenders.push_back(std::move(contender));
  }
  return contenders;
}

// Adds the client's studies that have no job now but may have one in a moment: the one that the
// device has worked for, and those that have just begun. Only where there is a job that takes longer
// than that.
absl::Status add_awaited(Database& database, const Holder& holder, const Claims& claims,
                         const Waiting& waiting, const LeaseRules& rules, int64_t now_ms,
                         std::vector<StudyTurns::Contender>* contenders) {
  const bool any_long =
      std::any_of(contenders->begin(), contenders->end(), [&](const StudyTurns::Contender& one) {
        return 1e3 * one.candidate_s > static_cast<double>(rules.hold_ms) / 2;
      });
  if (!any_long) return absl::OkStatus();
  std::set<std::string> queued;
  for (const StudyTurns::Contender& one : *contenders) queued.insert(one.study);
  std::vector<std::string> found;
  const int64_t begun_ms = now_ms - static_cast<int64_t>(1e3 * rules.slice_s);
  Query query = database.query(
      "SELECT id FROM studies WHERE client = ? AND state = 'running' AND device_target = ? AND "
      "priority >= ? AND (id = ? OR updated_ms > ?) AND EXISTS (SELECT 1 FROM study_workloads "
      "WHERE study = studies.id AND position = 0 AND backend = ?) ORDER BY id",
      waiting.client, holder.target, int64_t{waiting.priority}, claims.last_study, begun_ms,
      holder.backend);
  while (query.next()) found.push_back(query.text(0));
  RETURN_IF_ERROR(query.status());
  for (const std::string& study : found) {
    if (queued.contains(study)) continue;
    ASSIGN_OR_RETURN(StudyTurns::Contender contender, contender_of(database, study));
    if (study != claims.last_study && contender.busy_s > 0) continue;
    contender.is_awaited = true;
    contenders->push_back(std::move(contender));
  }
  return absl::OkStatus();
}

// The study's next job for the device, if another daemon has not just taken it, of those that are not
// for another agent's.
absl::StatusOr<std::optional<JobRow>> next_job(Database& database, const std::string& study,
                                               const Waiting& waiting, const Holder& holder,
                                               const Claims& claims, int64_t now_ms) {
  // Asked by the study alone: with target and client SQLite would walk all jobs of the client. Of
  // its workloads those that the device has the memory for.
  std::string fitting;
  if (holder.memory > 0) {
    fitting = "position NOT IN (SELECT position FROM study_workloads WHERE study = ? AND "
              "memory > ?) AND ";
  }
  const std::string own = concat("%,", absl::StrReplaceAll(holder.agent, {{"_", "\\_"}}), ",%");
  const auto oldest = [&](std::string_view where, std::vector<Value> values)
      -> absl::StatusOr<std::optional<JobRow>> {
    if (!fitting.empty()) {
      values.insert(values.end(), {std::string_view(study), static_cast<double>(holder.memory)});
    }
    values.insert(values.end(), {Value(now_ms), Value(std::string_view(own)), Value(now_ms)});
    ASSIGN_OR_RETURN(std::vector<JobRow> jobs,
                     select_jobs(database,
                                 concat("WHERE study = ? AND state = 'queued' AND ", where, fitting,
                                        "run_after <= ? AND (avoid = '' OR avoid NOT LIKE ? "
                                        "ESCAPE '\\' OR avoid_until <= ?) ORDER BY id LIMIT 1",
                                        database.skip_locked()),
                                 values));
    const bool fits = !jobs.empty() && jobs[0].target == holder.target &&
                      jobs[0].backend == holder.backend && jobs[0].client == waiting.client &&
                      jobs[0].priority == waiting.priority;
    if (!fits) return std::optional<JobRow>();
    return std::optional<JobRow>(std::move(jobs[0]));
  };
  if (study == claims.last_study) {
    ASSIGN_OR_RETURN(std::optional<JobRow> same,
                     oldest("position = ? AND ",
                            {std::string_view(study), int64_t{claims.last_position}}));
    if (same.has_value()) return same;
  }
  return oldest("", {std::string_view(study)});
}

// Of the study, that the device has at hand.
absl::StatusOr<int64_t> candidates_held(Database& database, const Holder& holder,
                                        const std::string& study) {
  Query held = database.query("SELECT coalesce(sum(candidates), 0) FROM jobs "
                              "WHERE state = 'leased' AND device = ? AND study = ?",
                              holder.device, study);
  const int64_t candidates = held.next() ? held.integer(0) : 0;
  RETURN_IF_ERROR(held.status());
  return candidates;
}

// Whether the device has enough at hand of the study, without the job.
absl::StatusOr<bool> has_enough(Database& database, const Holder& holder, const JobRow& job,
                                double candidate_s, const LeaseRules& rules) {
  ASSIGN_OR_RETURN(const int64_t candidates, candidates_held(database, holder, job.study));
  const double then_s = static_cast<double>(candidates + job.candidates) * candidate_s;
  return candidates > 0 && then_s > kAtHand * rules.slice_s;
}

absl::Status started(Database& database, const JobRow& job, int64_t now_ms, Changes* changes) {
  if (job.attempt > 1) return absl::OkStatus();
  RETURN_IF_ERROR(database.query("UPDATE studies SET started_ms = ? WHERE id = ? AND "
                                 "started_ms = 0", now_ms, job.study).run());
  if (database.changes() == 0) return absl::OkStatus();
  v1::StudyEvent event;
  event.set_kind(v1::StudyEvent::KIND_STARTED);
  event.set_job(job_name(job.id));
  event.set_device(device_name(job.device));
  event.set_state(v1::STUDY_STATE_RUNNING);
  changes->studies.insert(job.study);
  return add_event(database, job.study, now_ms, std::move(event));
}

// Whether the device leaves a job of so many seconds for a job that the awaited study has not yet.
absl::StatusOr<bool> waits(Database& database, const Holder& holder, const std::string& queue,
                           const std::string& awaited, double job_s, StudyTurns& turns,
                           const LeaseRules& rules, int64_t now_ms, Claimed* claimed) {
  // Until its result it has work anyhow.
  ASSIGN_OR_RETURN(const int64_t at_work, candidates_held(database, holder, awaited));
  if (at_work > 0) return true;
  // Never longer than the job would take.
  const int64_t most_ms = std::min(rules.hold_ms, static_cast<int64_t>(1e3 * job_s));
  const int64_t since_ms = turns.wait(queue, holder.device, awaited, now_ms);
  const int64_t until_ms = since_ms + most_ms;
  if (until_ms <= now_ms) return false;
  claimed->waits_anew |= since_ms == now_ms;
  claimed->held_until_ms =
      claimed->held_until_ms == 0 ? until_ms : std::min(claimed->held_until_ms, until_ms);
  return true;
}

// The client's next job for the device.
absl::StatusOr<std::optional<JobRow>> job_of(Database& database, const Holder& holder,
                                             const Waiting& waiting, const Claims& claims,
                                             Shares& shares, const LeaseRules& rules,
                                             int64_t now_ms, Claimed* claimed) {
  ASSIGN_OR_RETURN(std::vector<StudyTurns::Contender> contenders,
                   contenders_of(database, holder, waiting));
  RETURN_IF_ERROR(add_awaited(database, holder, claims, waiting, rules, now_ms, &contenders));
  const std::string queue =
      concat(waiting.client, " ", queue_of(holder.target, holder.backend));
  std::vector<const StudyTurns::Contender*> awaited;  // whose turn is before
  for (size_t i : shares.turns.order(queue, contenders, claims.last_study, now_ms)) {
    const StudyTurns::Contender& one = contenders[i];
    if (one.is_awaited) {
      awaited.push_back(&one);
      continue;
    }
    ASSIGN_OR_RETURN(std::optional<JobRow> job,
                     next_job(database, one.study, waiting, holder, claims, now_ms));
    if (!job.has_value()) continue;
    ASSIGN_OR_RETURN(bool left, has_enough(database, holder, *job, one.candidate_s, rules));
    const double job_s = static_cast<double>(job->candidates) * one.candidate_s;
    for (const StudyTurns::Contender* other : awaited) {
      if (left || !StudyTurns::is_dear(one, *other)) continue;
      ASSIGN_OR_RETURN(left, waits(database, holder, queue, other->study, job_s, shares.turns,
                                   rules, now_ms, claimed));
    }
    claimed->withheld |= left;
    if (left) continue;
    return job;
  }
  return std::optional<JobRow>();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> queues(Database& database) {
  ASSIGN_OR_RETURN(const std::vector<std::string> targets,
                   distinct_values(database, "jobs", "target", "state = 'queued'", {}));
  std::vector<std::string> found;
  for (const std::string& target : targets) {
    ASSIGN_OR_RETURN(const std::vector<std::string> backends,
                     distinct_values(database, "jobs", "backend", "state = 'queued' AND target = ?",
                                      {std::string_view(target)}));
    for (const std::string& backend : backends) found.push_back(queue_of(target, backend));
  }
  return found;
}

absl::StatusOr<int> adopt_old_jobs(Database& database, int count, Changes* changes) {
  ASSIGN_OR_RETURN(std::vector<JobRow> jobs,
                   select_jobs(database, "WHERE state = 'queued' AND backend = '' "
                                         "ORDER BY id LIMIT ?", {int64_t{count}}));
  for (JobRow& job : jobs) {
    Query known = database.query("SELECT backend FROM study_workloads WHERE study = ? AND "
                                 "position = ?", job.study, job.position);
    if (known.next()) job.backend = known.text(0);
    RETURN_IF_ERROR(known.status());
    // A study without one has no jobs; what is damaged so is given up, not looked at for ever.
    if (job.backend.empty()) {
      RETURN_IF_ERROR(database.query("UPDATE jobs SET state = 'cancelled' WHERE id = ?",
                                     job.id).run());
      continue;
    }
    RETURN_IF_ERROR(database.query("UPDATE jobs SET backend = ? WHERE id = ?", job.backend,
                                   job.id).run());
    changes->queued.insert(queue_of(job.target, job.backend));
  }
  return static_cast<int>(jobs.size());
}

absl::StatusOr<Shares> read_shares(Database& database) {
  Shares shares;
  Query query =
      database.query("SELECT client, count(*) FROM jobs WHERE state = 'leased' GROUP BY client");
  while (query.next()) shares.running[query.text(0)] = static_cast<int>(query.integer(1));
  RETURN_IF_ERROR(query.status());
  return shares;
}

absl::StatusOr<Claimed> claim_jobs(Database& database, const Holder& holder, const Claims& claims,
                                   Shares& shares, const LeaseRules& rules, int64_t now_ms,
                                   Changes* changes) {
  Claimed claimed;
  size_t bytes = 0;
  while (static_cast<int>(claimed.jobs.size()) < claims.count) {
    if (bytes >= claims.most_bytes) {
      claimed.withheld = true;
      break;
    }
    ASSIGN_OR_RETURN(const std::vector<Waiting> clients,
                     ranked_clients(database, holder, shares, now_ms));
    std::optional<JobRow> job;
    for (const Waiting& waiting : clients) {
      ASSIGN_OR_RETURN(job, job_of(database, holder, waiting, claims, shares, rules, now_ms,
                                   &claimed));
      if (job.has_value()) break;
    }
    if (!job.has_value()) break;
    changes->queue_wait_s.push_back(
        1e-3 * static_cast<double>(now_ms - std::max(job->created_ms, job->run_after)));
    job->state = v1::JOB_STATE_LEASED;
    ++job->attempt, ++job->epoch;
    job->agent = holder.agent, job->session = holder.session, job->device = holder.device;
    job->lease_until = now_ms + rules.ttl_ms, job->leased_ms = now_ms;
    note_holder(&*job);
    RETURN_IF_ERROR(update_job(database, *job));
    RETURN_IF_ERROR(started(database, *job, now_ms, changes));
    shares.turns.end_wait(holder.device, rules.hold_ms, now_ms);
    ++shares.running[job->client];
    bytes += job->payload.ByteSizeLong();
    claimed.jobs.push_back(*std::move(job));
  }
  return claimed;
}

}  // namespace lw
