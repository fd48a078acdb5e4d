#include "src/serve/leases.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/base/check.h"
#include "src/expr/message.h"
#include "src/net/times.h"
#include "src/serve/names.h"
#include "src/serve/results.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

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

// The client's next job for the device, if another daemon has not just taken it.
absl::StatusOr<std::optional<JobRow>> next_job(Database& database, const Waiting& waiting,
                                               std::string_view target, const Claims& claims,
                                               int64_t now_ms) {
  if (!claims.last_study.empty()) {
    // A study has one client, target and priority: asked for here, they would make SQLite walk all
    // jobs of the client instead of the study's.
    ASSIGN_OR_RETURN(
        std::vector<JobRow> same,
        select_jobs(database,
                    concat("WHERE study = ? AND state = 'queued' AND position = ? "
                           "AND run_after <= ? ORDER BY id LIMIT 1", database.skip_locked()),
                    {claims.last_study, int64_t{claims.last_position}, now_ms}));
    if (!same.empty() && same[0].target == target && same[0].client == waiting.client &&
        same[0].priority == waiting.priority) {
      return std::optional<JobRow>(std::move(same[0]));
    }
  }
  ASSIGN_OR_RETURN(
      std::vector<JobRow> oldest,
      select_jobs(database,
                  concat("WHERE state = 'queued' AND target = ? AND client = ? AND run_after <= ? "
                         "ORDER BY priority DESC, id LIMIT 1", database.skip_locked()),
                  {target, waiting.client, now_ms}));
  if (oldest.empty()) return std::optional<JobRow>();
  return std::optional<JobRow>(std::move(oldest[0]));
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

absl::Status tell_lost(Database& database, const JobRow& job, std::string detail, int64_t now_ms,
                       Changes* changes) {
  v1::StudyEvent event;
  event.set_kind(v1::StudyEvent::KIND_JOB_LOST);
  event.set_job(job_name(job.id));
  event.set_device(device_name(job.device));
  event.set_detail(std::move(detail));
  event.set_state(v1::STUDY_STATE_RUNNING);
  changes->studies.insert(job.study);
  return add_event(database, job.study, now_ms, std::move(event));
}

absl::Status queue_again(Database& database, JobRow& job, std::string_view why,
                         const LeaseRules& rules, int64_t run_after, int64_t now_ms,
                         Changes* changes) {
  if (job.attempt >= rules.most_attempts) {
    job.state = v1::JOB_STATE_DEAD;
    job.ended_ms = now_ms;
    job.detail = concat("given up after ", job.attempt, " attempts, the last: ", why);
    RETURN_IF_ERROR(tell_lost(database, job, job.detail, now_ms, changes));
    return update_job(database, job);
  }
  RETURN_IF_ERROR(tell_lost(database, job, concat("queued again: ", why), now_ms, changes));
  job.state = v1::JOB_STATE_QUEUED;
  job.run_after = run_after;
  job.detail = std::string(why);
  clear_holder(job);
  changes->queued.insert(job.target);
  return update_job(database, job);
}

// One job for each candidate, fresh, in place of `job`.
absl::Status split(Database& database, const JobRow& job, int64_t now_ms, Changes* changes) {
  for (int i = 0; i < job.payload.candidates_size(); ++i) {
    JobRow part = job;
    part.state = v1::JOB_STATE_QUEUED;
    part.attempt = 0, part.epoch = 0, part.run_after = 0, part.lease_until = 0, part.leased_ms = 0;
    clear_holder(part);
    part.lost_on.clear(), part.detail = concat("split from ", job_name(job.id));
    part.created_ms = now_ms, part.ended_ms = 0, part.candidates = 1;
    part.payload.clear_candidates();
    *part.payload.add_candidates() = job.payload.candidates(i);
    part.payload.mutable_candidates(0)->set_index(0);
    part.payload.set_kind(v1::JOB_KIND_MEASURE);
    part.sources = {job.sources[i]};
    RETURN_IF_ERROR(insert_job(database, part).status());
  }
  changes->queued.insert(job.target);
  return absl::OkStatus();
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

absl::StatusOr<std::vector<JobRow>> claim_jobs(Database& database, const Holder& holder,
                                               const Claims& claims, Shares& shares,
                                               const LeaseRules& rules, int64_t now_ms,
                                               Changes* changes) {
  std::vector<JobRow> claimed;
  while (static_cast<int>(claimed.size()) < claims.count) {
    ASSIGN_OR_RETURN(const std::vector<Waiting> clients,
                     ranked_clients(database, holder.target, shares, now_ms));
    std::optional<JobRow> job;
    for (const Waiting& waiting : clients) {
      ASSIGN_OR_RETURN(job, next_job(database, waiting, holder.target, claims, now_ms));
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
    claimed.push_back(*std::move(job));
  }
  return claimed;
}

v1::Job job_message(const JobRow& job, const LeaseRules& rules) {
  v1::Job message = job.payload;
  message.set_name(job_name(job.id));
  message.set_epoch(job.epoch);
  message.set_device(device_name(job.device));
  message.set_study(study_name(job.study));
  *message.mutable_lease() = duration_of_ms(rules.ttl_ms);
  return message;
}

void clear_holder(JobRow& job) { job.device.clear(), job.agent.clear(), job.session.clear(); }

absl::Status release_job(Database& database, JobRow job, std::string_view why,
                         const LeaseRules& rules, int64_t run_after, int64_t now_ms,
                         Changes* changes) {
  ++changes->attempts["released"];
  return queue_again(database, job, why, rules, run_after, now_ms, changes);
}

absl::Status lose_job(Database& database, JobRow job, Store& store, const LeaseRules& rules,
                      int64_t now_ms, Changes* changes) {
  ++changes->attempts["lost"];
  job.lost_on.push_back(job.agent);
  const std::set<std::string> distinct(job.lost_on.begin(), job.lost_on.end());
  const bool poison = static_cast<int>(distinct.size()) >= rules.poison_agents ||
                      static_cast<int>(job.lost_on.size()) >= rules.most_attempts;
  if (!poison) {
    return queue_again(database, job, concat(agent_name(job.agent), " disappeared"), rules, now_ms,
                       now_ms, changes);
  }
  job.state = v1::JOB_STATE_DEAD;
  job.ended_ms = now_ms;
  job.detail = concat("given up after ", job.attempt, " attempts; disappeared with it: ",
                      absl::StrJoin(distinct, ", "));
  RETURN_IF_ERROR(update_job(database, job));
  if (job.candidates > 1) {
    RETURN_IF_ERROR(tell_lost(database, job, job.detail + "; split", now_ms, changes));
    return split(database, job, now_ms, changes);
  }
  RETURN_IF_ERROR(tell_lost(database, job, job.detail, now_ms, changes));
  return charge_candidate(database, store, job, now_ms, changes);
}

absl::StatusOr<int> expire_leases(Database& database, Store& store, const LeaseRules& rules,
                                  int count, int64_t now_ms, Changes* changes) {
  ASSIGN_OR_RETURN(std::vector<JobRow> jobs,
                   select_jobs(database, "WHERE state = 'leased' AND lease_until < ? "
                                         "ORDER BY lease_until LIMIT ?",
                               {now_ms, int64_t{count}}));
  for (JobRow& job : jobs) {
    ++changes->expired;
    RETURN_IF_ERROR(lose_job(database, std::move(job), store, rules, now_ms, changes));
  }
  return static_cast<int>(jobs.size());
}

absl::Status lose_sessions(Database& database, Store& store, std::string_view agent,
                           std::string_view current_session, const LeaseRules& rules,
                           int64_t now_ms, Changes* changes) {
  ASSIGN_OR_RETURN(std::vector<JobRow> jobs,
                   select_jobs(database, "WHERE state = 'leased' AND agent = ? AND session <> ? "
                                         "ORDER BY id",
                               {agent, current_session}));
  for (JobRow& job : jobs) {
    RETURN_IF_ERROR(lose_job(database, std::move(job), store, rules, now_ms, changes));
  }
  return absl::OkStatus();
}

}  // namespace lw
