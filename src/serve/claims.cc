#include "src/serve/claims.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "src/base/check.h"
#include "src/expr/message.h"
#include "src/serve/names.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

constexpr double kAtHand = 1.5;            // slices of a study on a device

// What stands in `column` of the jobs that fit `where`: one step along the index for each, however
// many jobs there are.
absl::StatusOr<std::vector<std::string>> distinct_of_jobs(Database& database,
                                                          std::string_view column,
                                                          std::string_view where,
                                                          std::vector<Value> values) {
  std::vector<std::string> found;
  for (size_t i = 0, count = values.size(); i < count; ++i) values.push_back(values[i]);
  Query query = database.query_values(
      concat("WITH RECURSIVE next(value) AS ("
             " SELECT min(", column, ") FROM jobs WHERE ", where,
             " UNION ALL"
             " SELECT (SELECT min(jobs.", column, ") FROM jobs WHERE ", where,
             " AND jobs.", column, " > next.value) FROM next WHERE next.value IS NOT NULL)"
             " SELECT value FROM next WHERE value IS NOT NULL"),
      values);
  while (query.next()) found.push_back(query.text(0));
  RETURN_IF_ERROR(query.status());
  return found;
}

struct Waiting {
  std::string client;
  int priority = 0;
  int64_t job = 0;                         // its next
  double score = 0;
};

// Best first.
absl::StatusOr<std::vector<Waiting>> ranked_clients(Database& database, std::string_view target,
                                                    const Shares& shares, int64_t now_ms) {
  ASSIGN_OR_RETURN(const std::vector<std::string> clients,
                   distinct_of_jobs(database, "client", "state = 'queued' AND target = ?",
                                    {target}));
  std::vector<Waiting> ranked;
  for (const std::string& client : clients) {
    Query query = database.query(
        "SELECT priority, id FROM jobs WHERE state = 'queued' AND target = ? AND client = ? "
        "AND run_after <= ? ORDER BY priority DESC, id LIMIT 1", target, client, now_ms);
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

// A client's studies with queued jobs of its highest priority, by age.
absl::StatusOr<std::vector<StudyTurns::Contender>> contenders_of(Database& database,
                                                                 std::string_view target,
                                                                 const Waiting& waiting) {
  ASSIGN_OR_RETURN(const std::vector<std::string> studies,
                   distinct_of_jobs(database, "study",
                                    "state = 'queued' AND target = ? AND client = ? "
                                    "AND priority = ?",
                                    {target, std::string_view(waiting.client),
                                     int64_t{waiting.priority}}));
  std::vector<StudyTurns::Contender> contenders;
  for (const std::string& study : studies) {
    StudyTurns::Contender& contender = contenders.emplace_back();
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
  }
  return contenders;
}

// The study's next job for the device, if another daemon has not just taken it.
absl::StatusOr<std::optional<JobRow>> next_job(Database& database, const std::string& study,
                                               const Waiting& waiting, std::string_view target,
                                               const Claims& claims, int64_t now_ms) {
  // Asked by the study alone: with target and client SQLite would walk all jobs of the client.
  const auto oldest = [&](std::string_view where, const std::vector<Value>& values)
      -> absl::StatusOr<std::optional<JobRow>> {
    ASSIGN_OR_RETURN(std::vector<JobRow> jobs,
                     select_jobs(database,
                                 concat("WHERE study = ? AND state = 'queued' ", where,
                                        "run_after <= ? ORDER BY id LIMIT 1",
                                        database.skip_locked()),
                                 values));
    const bool fits = !jobs.empty() && jobs[0].target == target &&
                      jobs[0].client == waiting.client && jobs[0].priority == waiting.priority;
    if (!fits) return std::optional<JobRow>();
    return std::optional<JobRow>(std::move(jobs[0]));
  };
  if (study == claims.last_study) {
    ASSIGN_OR_RETURN(std::optional<JobRow> same,
                     oldest("AND position = ? AND ",
                            {std::string_view(study), int64_t{claims.last_position}, now_ms}));
    if (same.has_value()) return same;
  }
  return oldest("AND ", {std::string_view(study), now_ms});
}

// Whether the device has enough at hand of the study, without the job.
absl::StatusOr<bool> has_enough(Database& database, const Holder& holder, const JobRow& job,
                                double candidate_s, const LeaseRules& rules) {
  Query held = database.query("SELECT coalesce(sum(candidates), 0) FROM jobs "
                              "WHERE state = 'leased' AND device = ? AND study = ?",
                              holder.device, job.study);
  const int64_t candidates = held.next() ? held.integer(0) : 0;
  RETURN_IF_ERROR(held.status());
  const double then_s = static_cast<double>(candidates + job.candidates) * candidate_s;
  return candidates > 0 && then_s > kAtHand * rules.slice_s;
}

absl::Status started(Database& database, const JobRow& job, int64_t now_ms, Changes* changes) {
  if (job.attempt > 1) return absl::OkStatus();
  Query first = database.query("SELECT 1 FROM events WHERE study = ? AND sequence = 2", job.study);
  if (first.next()) return absl::OkStatus();
  RETURN_IF_ERROR(first.status());
  v1::StudyEvent event;
  event.set_kind(v1::StudyEvent::KIND_STARTED);
  event.set_job(job_name(job.id));
  event.set_device(device_name(job.device));
  event.set_state(v1::STUDY_STATE_RUNNING);
  changes->studies.insert(job.study);
  return add_event(database, job.study, now_ms, std::move(event));
}

// The client's next job for the device.
absl::StatusOr<std::optional<JobRow>> job_of(Database& database, const Holder& holder,
                                             const Waiting& waiting, const Claims& claims,
                                             Shares& shares, const LeaseRules& rules,
                                             int64_t now_ms, bool* withheld) {
  ASSIGN_OR_RETURN(const std::vector<StudyTurns::Contender> contenders,
                   contenders_of(database, holder.target, waiting));
  const std::string queue = concat(waiting.client, " ", holder.target);
  for (size_t i : shares.turns.order(queue, contenders, claims.last_study)) {
    ASSIGN_OR_RETURN(std::optional<JobRow> job,
                     next_job(database, contenders[i].study, waiting, holder.target, claims,
                              now_ms));
    if (!job.has_value()) continue;
    ASSIGN_OR_RETURN(const bool enough,
                     has_enough(database, holder, *job, contenders[i].candidate_s, rules));
    *withheld |= enough;
    if (enough) continue;
    return job;
  }
  return std::optional<JobRow>();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> queued_targets(Database& database) {
  return distinct_of_jobs(database, "target", "state = 'queued'", {});
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
  while (static_cast<int>(claimed.jobs.size()) < claims.count) {
    ASSIGN_OR_RETURN(const std::vector<Waiting> clients,
                     ranked_clients(database, holder.target, shares, now_ms));
    std::optional<JobRow> job;
    for (const Waiting& waiting : clients) {
      ASSIGN_OR_RETURN(job, job_of(database, holder, waiting, claims, shares, rules, now_ms,
                                   &claimed.withheld));
      if (job.has_value()) break;
    }
    if (!job.has_value()) break;
    changes->queue_wait_s.push_back(
        1e-3 * static_cast<double>(now_ms - std::max(job->created_ms, job->run_after)));
    job->state = v1::JOB_STATE_LEASED;
    ++job->attempt, ++job->epoch;
    job->agent = holder.agent, job->session = holder.session, job->device = holder.device;
    job->lease_until = now_ms + rules.ttl_ms, job->leased_ms = now_ms;
    RETURN_IF_ERROR(update_job(database, *job));
    RETURN_IF_ERROR(started(database, *job, now_ms, changes));
    ++shares.running[job->client];
    claimed.jobs.push_back(*std::move(job));
  }
  return claimed;
}

}  // namespace lw
