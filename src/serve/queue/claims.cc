#include "src/serve/queue/claims.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <tuple>

#include "absl/strings/str_replace.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/serve/messages/names.h"
#include "src/serve/queue/orphans.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

constexpr double kAtHand = 1.5;            // slices of a study on a device

struct Waiting {
  std::string client;
  int priority = 0;
  int64_t job = INT64_MAX;                 // its next, if it has one
  double cost = 1, begin = 0;              // of a second, of the job (client_turns.h)
  std::string study = "";                  // that has no job now, and is awaited
};

double cost_of(const Shares& shares, const std::string& client, int priority) {
  const auto weight = shares.weights.find(client);
  return std::exp2(-priority / 100.0) /
         (weight == shares.weights.end() ? shares.usual_weight : weight->second);
}

// With jobs that could run now.
absl::StatusOr<std::vector<Waiting>> clients_with_jobs(Transaction& tx, const Holder& holder,
                                                       int64_t now_ms) {
  const std::string_view target = holder.target, backend = holder.backend;
  ASSIGN_OR_RETURN(const std::vector<std::string> clients,
                   distinct_values(tx, "jobs", "client",
                                    "state = 'queued' AND target = ? AND backend = ?",
                                    {target, backend}));
  std::vector<Waiting> found;
  for (const std::string& client : clients) {
    Query query = tx.query(
        "SELECT priority, id FROM jobs WHERE state = 'queued' AND target = ? AND backend = ? AND "
        "client = ? AND run_after <= ? ORDER BY priority DESC, id LIMIT 1",
        target, backend, client, now_ms);
    if (query.next()) {
      found.push_back({.client = client, .priority = static_cast<int>(query.integer(0)),
                       .job = query.integer(1)});
    }
    RETURN_IF_ERROR(query.status());
  }
  return found;
}

absl::StatusOr<StudyTurns::Contender> contender_of(Transaction& tx, const std::string& study) {
  StudyTurns::Contender contender;
  contender.study = study;
  Query spent = tx.query("SELECT sum(busy_s), sum(measured_s), sum(measured) "
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
absl::StatusOr<std::vector<StudyTurns::Contender>> contenders_of(Transaction& tx,
                                                                 const Holder& holder,
                                                                 const Waiting& waiting) {
  ASSIGN_OR_RETURN(const std::vector<std::string> studies,
                   distinct_values(tx, "jobs", "study",
                                    "state = 'queued' AND target = ? AND backend = ? AND "
                                    "client = ? AND priority = ?",
                                    {std::string_view(holder.target),
                                     std::string_view(holder.backend),
                                     std::string_view(waiting.client),
                                     int64_t{waiting.priority}}));
  std::vector<StudyTurns::Contender> contenders;
  for (const std::string& study : studies) {
    ASSIGN_OR_RETURN(StudyTurns::Contender contender, contender_of(tx, study));
    contenders.push_back(std::move(contender));
  }
  return contenders;
}

// A study that may have its next job for the device in a moment.
struct Awaited {
  std::string client;
  int priority = 0;
  StudyTurns::Contender contender;
};

// The one that the device took a job of last; those that have just got a result, unless other devices
// work for them; those that have just begun.
absl::StatusOr<std::vector<Awaited>> awaited_studies(Transaction& tx, const Holder& holder,
                                                     const Claims& claims, const LeaseRules& rules,
                                                     int64_t now_ms) {
  std::vector<Awaited> found;
  const int64_t begun_ms = now_ms - static_cast<int64_t>(1e3 * rules.slice_s);
  Query query = tx.query(
      "SELECT id, client, priority FROM studies WHERE state = 'running' AND device_target = ? AND "
      "(id = ? OR (updated_ms > ? AND NOT EXISTS (SELECT 1 FROM jobs WHERE study = studies.id AND "
      "state = 'leased' AND device <> ?)) OR (updated_ms > ? AND NOT EXISTS (SELECT 1 FROM "
      "study_workloads WHERE study = studies.id AND busy_s > 0))) AND EXISTS (SELECT 1 FROM "
      "study_workloads WHERE study = studies.id AND position = 0 AND backend = ?) ORDER BY id",
      holder.target, claims.last_study, now_ms - rules.hold_ms, holder.device, begun_ms,
      holder.backend);
  while (query.next()) {
    Awaited one{query.text(1), static_cast<int>(query.integer(2)), {}};
    one.contender.study = query.text(0);
    found.push_back(std::move(one));
  }
  RETURN_IF_ERROR(query.status());
  for (Awaited& one : found) {
    ASSIGN_OR_RETURN(one.contender, contender_of(tx, one.contender.study));
    one.contender.is_awaited = true;
  }
  return found;
}

// Those that have a job for the device or are awaited, in the order of their turns.
absl::StatusOr<std::vector<Waiting>> ranked_clients(Transaction& tx, const Holder& holder,
                                                    const std::string& queue,
                                                    const std::vector<Awaited>& awaited,
                                                    const Shares& shares, int64_t now_ms) {
  ASSIGN_OR_RETURN(std::vector<Waiting> ranked, clients_with_jobs(tx, holder, now_ms));
  if (ranked.empty()) return ranked;
  std::set<std::string> known;
  for (const Waiting& one : ranked) known.insert(one.client);
  for (const Awaited& one : awaited) {
    if (!known.insert(one.client).second) continue;
    ranked.push_back({.client = one.client, .priority = one.priority,
                      .study = one.contender.study});
  }
  for (Waiting& one : ranked) {
    one.cost = cost_of(shares, one.client, one.priority);
    one.begin = shares.clients.begin(queue, one.client);
  }
  // Of those that would begin at once the one that pays least, then the oldest job, or the first name
  // would always win where one job runs at a time.
  std::sort(ranked.begin(), ranked.end(), [](const Waiting& a, const Waiting& b) {
    return std::tuple(a.begin, a.cost, a.job) < std::tuple(b.begin, b.cost, b.job);
  });
  return ranked;
}

// The study's next job for the device, if another daemon has not just taken it, of those that are not
// for another agent's.
absl::StatusOr<std::optional<JobRow>> next_job(WriteTransaction& tx, const std::string& study,
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
                     select_jobs(tx,
                                 concat("WHERE study = ? AND state = 'queued' AND ", where, fitting,
                                        "run_after <= ? AND (avoid = '' OR avoid NOT LIKE ? "
                                        "ESCAPE '\\' OR avoid_until <= ?) ORDER BY id LIMIT 1",
                                        tx.database().skip_locked()),
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
absl::StatusOr<int64_t> candidates_held(Transaction& tx, const Holder& holder,
                                        const std::string& study) {
  Query held = tx.query("SELECT coalesce(sum(candidates), 0) FROM jobs "
                        "WHERE state = 'leased' AND device = ? AND study = ?",
                        holder.device, study);
  const int64_t candidates = held.next() ? held.integer(0) : 0;
  RETURN_IF_ERROR(held.status());
  return candidates;
}

// Whether the device has enough at hand of the study, without the job.
absl::StatusOr<bool> has_enough(Transaction& tx, const Holder& holder, const JobRow& job,
                                double candidate_s, const LeaseRules& rules) {
  ASSIGN_OR_RETURN(const int64_t candidates, candidates_held(tx, holder, job.study));
  const double then_s = static_cast<double>(candidates + job.candidates) * candidate_s;
  return candidates > 0 && then_s > kAtHand * rules.slice_s;
}

absl::Status started(WriteTransaction& tx, const JobRow& job, int64_t now_ms, Changes* changes) {
  if (job.attempt > 1) return absl::OkStatus();
  RETURN_IF_ERROR(tx.query("UPDATE studies SET started_ms = ? WHERE id = ? AND "
                           "started_ms = 0", now_ms, job.study).run());
  if (tx.changes() == 0) return absl::OkStatus();
  v1::StudyEvent event;
  event.set_kind(v1::StudyEvent::KIND_STARTED);
  event.set_job(job_name(job.id));
  event.set_device(device_name(job.device));
  event.set_state(v1::STUDY_STATE_RUNNING);
  changes->studies.insert(job.study);
  return add_event(tx, job.study, now_ms, std::move(event));
}

// Whether the device leaves a job of so many seconds for a job that the awaited study has not yet.
absl::StatusOr<bool> waits(Transaction& tx, const Holder& holder, const std::string& queue,
                           const Waiting& client, const std::string& study, double job_s,
                           Shares& shares, const LeaseRules& rules, int64_t now_ms,
                           Claimed* claimed) {
  // Until its result it has work anyhow.
  ASSIGN_OR_RETURN(const int64_t at_work, candidates_held(tx, holder, study));
  if (at_work > 0) return true;
  // Never longer than the job would take.
  const int64_t most_ms = std::min(rules.hold_ms, static_cast<int64_t>(1e3 * job_s));
  const Shares::Wait wait{queue, client.client, study, client.cost, now_ms};
  const int64_t since_ms = shares.waits.try_emplace(holder.device, wait).first->second.since_ms;
  const int64_t until_ms = since_ms + most_ms;
  if (until_ms <= now_ms) return false;
  claimed->waits_anew |= since_ms == now_ms;
  claimed->held_until_ms =
      claimed->held_until_ms == 0 ? until_ms : std::min(claimed->held_until_ms, until_ms);
  return true;
}

std::string studies_queue(const std::string& client, const std::string& queue) {
  return concat(client, " ", queue);
}

// The device has got a job, of whomever.
void end_wait(Shares& shares, const std::string& device, const LeaseRules& rules, int64_t now_ms) {
  const auto found = shares.waits.find(device);
  if (found == shares.waits.end()) return;
  const Shares::Wait& wait = found->second;
  const double waited_s =
      1e-3 * static_cast<double>(std::clamp<int64_t>(now_ms - wait.since_ms, 0, rules.hold_ms));
  shares.studies.charge(studies_queue(wait.client, wait.queue), wait.study, waited_s);
  shares.clients.charge(wait.queue, wait.client, wait.cost * waited_s);
  shares.waits.erase(found);
}

struct Next {
  JobRow job;
  double seconds = 0;                      // that it should take
};

// The client's next job for the device.
absl::StatusOr<std::optional<Next>> next_of(WriteTransaction& tx, const Holder& holder,
                                            const std::string& queue, const Waiting& waiting,
                                            const std::vector<Awaited>& all_awaited,
                                            const Claims& claims, Shares& shares,
                                            const LeaseRules& rules, int64_t now_ms,
                                            Claimed* claimed) {
  ASSIGN_OR_RETURN(std::vector<StudyTurns::Contender> contenders,
                   contenders_of(tx, holder, waiting));
  const bool any_long =
      std::any_of(contenders.begin(), contenders.end(), [&](const StudyTurns::Contender& one) {
        return 1e3 * one.candidate_s > static_cast<double>(rules.hold_ms) / 2;
      });
  std::set<std::string> queued;
  for (const StudyTurns::Contender& one : contenders) queued.insert(one.study);
  for (const Awaited& one : all_awaited) {
    const bool is_rival = one.client == waiting.client && one.priority >= waiting.priority &&
                          !queued.contains(one.contender.study);
    if (any_long && is_rival) contenders.push_back(one.contender);
  }
  std::vector<const StudyTurns::Contender*> awaited;  // whose turn is before
  for (size_t i : shares.studies.order(studies_queue(waiting.client, queue), contenders,
                                       claims.last_study, now_ms)) {
    const StudyTurns::Contender& one = contenders[i];
    if (one.is_awaited) {
      awaited.push_back(&one);
      continue;
    }
    ASSIGN_OR_RETURN(std::optional<JobRow> job,
                     next_job(tx, one.study, waiting, holder, claims, now_ms));
    if (!job.has_value()) continue;
    ASSIGN_OR_RETURN(bool left, has_enough(tx, holder, *job, one.candidate_s, rules));
    const double job_s = one.candidate_s > 0
                             ? static_cast<double>(job->candidates) * one.candidate_s
                             : rules.slice_s;
    for (const StudyTurns::Contender* other : awaited) {
      if (left || !StudyTurns::is_dear(one, *other)) continue;
      ASSIGN_OR_RETURN(left, waits(tx, holder, queue, waiting, other->study, job_s, shares, rules,
                                   now_ms, claimed));
    }
    claimed->withheld |= left;
    if (left) continue;
    return Next{*std::move(job), job_s};
  }
  return std::optional<Next>();
}

// The next job for the device, of whomever.
absl::StatusOr<std::optional<Next>> next_of_all(WriteTransaction& tx, const Holder& holder,
                                                const std::string& queue,
                                                const std::vector<Awaited>& awaited,
                                                const Claims& claims, Shares& shares,
                                                const LeaseRules& rules, int64_t now_ms,
                                                Claimed* claimed) {
  ASSIGN_OR_RETURN(const std::vector<Waiting> clients,
                   ranked_clients(tx, holder, queue, awaited, shares, now_ms));
  std::vector<const Waiting*> before;      // without a job now
  for (const Waiting& waiting : clients) {
    if (!waiting.study.empty()) {
      before.push_back(&waiting);
      continue;
    }
    ASSIGN_OR_RETURN(std::optional<Next> next,
                     next_of(tx, holder, queue, waiting, awaited, claims, shares, rules, now_ms,
                             claimed));
    if (!next.has_value()) continue;
    bool left = false;
    for (const Waiting* other : before) {
      if (left || 1e3 * next->seconds < static_cast<double>(rules.hold_ms)) continue;
      ASSIGN_OR_RETURN(left, waits(tx, holder, queue, *other, other->study, next->seconds, shares,
                                   rules, now_ms, claimed));
    }
    claimed->withheld |= left;
    if (!left) return next;
  }
  return std::optional<Next>();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> queues(Transaction& tx) {
  ASSIGN_OR_RETURN(const std::vector<std::string> targets,
                   distinct_values(tx, "jobs", "target", "state = 'queued'", {}));
  std::vector<std::string> found;
  for (const std::string& target : targets) {
    ASSIGN_OR_RETURN(const std::vector<std::string> backends,
                     distinct_values(tx, "jobs", "backend", "state = 'queued' AND target = ?",
                                      {std::string_view(target)}));
    for (const std::string& backend : backends) found.push_back(queue_of(target, backend));
  }
  return found;
}

absl::StatusOr<int> adopt_old_jobs(WriteTransaction& tx, int count, Changes* changes) {
  ASSIGN_OR_RETURN(std::vector<JobRow> jobs,
                   select_jobs(tx, "WHERE state = 'queued' AND backend = '' "
                                   "ORDER BY id LIMIT ?", {int64_t{count}}));
  for (JobRow& job : jobs) {
    Query known = tx.query("SELECT backend FROM study_workloads WHERE study = ? AND "
                           "position = ?", job.study, job.position);
    if (known.next()) job.backend = known.text(0);
    RETURN_IF_ERROR(known.status());
    // A study without one has no jobs; what is damaged so is given up, not looked at for ever.
    if (job.backend.empty()) {
      RETURN_IF_ERROR(tx.query("UPDATE jobs SET state = 'cancelled' WHERE id = ?", job.id).run());
      continue;
    }
    RETURN_IF_ERROR(tx.query("UPDATE jobs SET backend = ? WHERE id = ?", job.backend,
                             job.id).run());
    changes->queued.insert(queue_of(job.target, job.backend));
  }
  return static_cast<int>(jobs.size());
}

absl::StatusOr<Claimed> claim_jobs(WriteTransaction& tx, const Holder& holder, const Claims& claims,
                                   Shares& shares, const LeaseRules& rules, int64_t now_ms,
                                   Changes* changes) {
  const std::string queue = queue_of(holder.target, holder.backend);
  Probation& probation = shares.probation;
  if (holder.is_proven) {
    RETURN_IF_ERROR(probation.take_back(tx, queue, rules, now_ms, changes));
  }
  ASSIGN_OR_RETURN(const std::vector<Awaited> awaited,
                   awaited_studies(tx, holder, claims, rules, now_ms));
  Claimed claimed;
  size_t bytes = 0;
  while (static_cast<int>(claimed.jobs.size()) < claims.count) {
    if (bytes >= claims.most_bytes) {
      claimed.withheld = true;
      break;
    }
    ASSIGN_OR_RETURN(std::optional<Next> next,
                     next_of_all(tx, holder, queue, awaited, claims, shares, rules, now_ms,
                                 &claimed));
    if (!next.has_value()) break;
    JobRow& job = next->job;
    changes->queue_wait_s.push_back(
        1e-3 * static_cast<double>(now_ms - std::max(job.created_ms, job.run_after)));
    job.state = v1::JOB_STATE_LEASED;
    ++job.attempt, ++job.epoch;
    job.agent = holder.agent, job.session = holder.session, job.device = holder.device;
    job.lease_until = now_ms + rules.ttl_ms, job.leased_ms = now_ms;
    note_holder(&job);
    RETURN_IF_ERROR(update_job(tx, job));
    RETURN_IF_ERROR(started(tx, job, now_ms, changes));
    end_wait(shares, holder.device, rules, now_ms);
    shares.clients.give(queue, job.client, {job.id, job.epoch}, next->seconds,
                        cost_of(shares, job.client, job.priority), now_ms);
    if (holder.is_proven) {
      probation.end(job.id);
    } else {
      probation.begin(queue, job, next->seconds, holder.losses, rules, now_ms);
    }
    bytes += job.payload.ByteSizeLong();
    claimed.jobs.push_back(std::move(job));
  }
  const int64_t overdue_ms = holder.is_proven ? probation.next_ms(queue) : 0;
  if (static_cast<int>(claimed.jobs.size()) < claims.count && overdue_ms > 0) {
    claimed.withheld = true;
    claimed.held_until_ms = claimed.held_until_ms == 0
                                ? overdue_ms : std::min(claimed.held_until_ms, overdue_ms);
  }
  return claimed;
}

}  // namespace lw
