#include "src/serve/queue/leases.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/net/times.h"
#include "src/serve/messages/names.h"
#include "src/serve/queue/results.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

absl::Status tell_lost(WriteTransaction& tx, const JobRow& job, std::string detail, int64_t now_ms,
                       Changes* changes) {
  v1::StudyEvent event;
  event.set_kind(v1::StudyEvent::KIND_JOB_LOST);
  event.set_job(job_name(job.id));
  event.set_device(device_name(job.device));
  event.set_detail(std::move(detail));
  event.set_state(v1::STUDY_STATE_RUNNING);
  changes->studies.insert(job.study);
  return add_event(tx, job.study, now_ms, std::move(event));
}

absl::Status queue_again(WriteTransaction& tx, JobRow& job, std::string_view why,
                         const LeaseRules& rules, int64_t run_after, int64_t now_ms,
                         Changes* changes) {
  if (job.attempt >= rules.most_attempts) return give_up_job(tx, job, why, now_ms, changes);
  RETURN_IF_ERROR(tell_lost(tx, job, concat("queued again: ", why), now_ms, changes));
  job.state = v1::JOB_STATE_QUEUED;
  job.run_after = run_after;
  job.detail = std::string(why);
  clear_holder(job);
  changes->queued.insert(queue_of(job.target, job.backend));
  return update_job(tx, job);
}

// One job for each candidate, fresh, in place of `job`.
absl::Status split(WriteTransaction& tx, const JobRow& job, int64_t now_ms, Changes* changes) {
  for (int i = 0; i < job.payload.candidates_size(); ++i) {
    JobRow part = job;
    part.state = v1::JOB_STATE_QUEUED;
    part.attempt = 0, part.epoch = 0, part.run_after = 0, part.lease_until = 0, part.leased_ms = 0;
    clear_holder(part);
    part.lost_on.clear(), part.holders.clear();
    part.detail = concat("split from ", job_name(job.id));
    part.created_ms = now_ms, part.ended_ms = 0, part.candidates = 1;
    part.payload.clear_candidates();
    *part.payload.add_candidates() = job.payload.candidates(i);
    part.payload.mutable_candidates(0)->set_index(0);
    part.payload.set_kind(v1::JOB_KIND_MEASURE);
    part.sources = {job.sources[i]};
    RETURN_IF_ERROR(insert_job(tx, part).status());
  }
  changes->queued.insert(queue_of(job.target, job.backend));
  return absl::OkStatus();
}

}  // namespace

absl::Status give_up_job(WriteTransaction& tx, JobRow& job, std::string_view why, int64_t now_ms,
                         Changes* changes) {
  job.state = v1::JOB_STATE_DEAD;
  job.ended_ms = now_ms;
  job.detail = concat("given up after ", job.attempt, job.attempt == 1 ? " attempt" : " attempts",
                      ", the last: ", why);
  RETURN_IF_ERROR(tell_lost(tx, job, job.detail, now_ms, changes));
  RETURN_IF_ERROR(tx.query("UPDATE study_workloads SET dead_jobs = dead_jobs + 1 "
                           "WHERE study = ? AND position = ?",
                           job.study, job.position).run());
  return update_job(tx, job);
}

std::string queue_of(std::string_view device_target, std::string_view backend) {
  return concat(device_target, " ", backend);
}

v1::Job job_message(const JobRow& job, const LeaseRules& rules) {
  v1::Job message = job.payload;
  message.set_name(job_name(job.id));
  message.set_epoch(job.epoch);
  message.set_device(device_name(job.device));
  message.set_backend(job.backend);
  message.set_study(study_name(job.study));
  *message.mutable_lease() = duration_of_ms(rules.ttl_ms);
  return message;
}

void clear_holder(JobRow& job) { job.device.clear(), job.agent.clear(), job.session.clear(); }

absl::Status release_job(WriteTransaction& tx, JobRow job, std::string_view why,
                         const LeaseRules& rules, int64_t run_after, int64_t now_ms,
                         Changes* changes) {
  ++changes->attempts["released"];
  return queue_again(tx, job, why, rules, run_after, now_ms, changes);
}

absl::Status note_loss(WriteTransaction& tx, std::string_view agent, const LeaseRules& rules,
                       int64_t now_ms) {
  int64_t losses = 1;
  {
    Query query = tx.query("SELECT losses FROM agents WHERE id = ?", agent);
    if (query.next()) losses += query.integer(0);
    RETURN_IF_ERROR(query.status());
  }
  const int64_t doubled = std::clamp<int64_t>(losses - rules.free_losses - 1, 0, 30);
  const int64_t rest_ms = std::min(rules.longest_rest_ms, rules.rest_ms << doubled);
  const int64_t until_ms = losses <= rules.free_losses ? 0 : now_ms + rest_ms;
  return tx.query("UPDATE agents SET losses = ?, rest_until = ? WHERE id = ?", losses,
                  until_ms, agent).run();
}

absl::StatusOr<int64_t> rest_of(Transaction& tx, std::string_view agent) {
  Query query = tx.query("SELECT rest_until FROM agents WHERE id = ?", agent);
  const int64_t until_ms = query.next() ? query.integer(0) : 0;
  RETURN_IF_ERROR(query.status());
  return until_ms;
}

absl::Status forget_losses(WriteTransaction& tx, std::string_view agent) {
  return tx.query("UPDATE agents SET losses = 0, rest_until = 0 WHERE id = ?", agent).run();
}

absl::Status lose_job(WriteTransaction& tx, JobRow job, const LeaseRules& rules, int64_t now_ms,
                      Changes* changes) {
  ++changes->attempts["lost"];
  RETURN_IF_ERROR(note_loss(tx, job.agent, rules, now_ms));
  job.lost_on.push_back(job.agent);
  const std::set<std::string> distinct(job.lost_on.begin(), job.lost_on.end());
  const bool poison = static_cast<int>(distinct.size()) >= rules.poison_agents ||
                      static_cast<int>(job.lost_on.size()) >= rules.most_attempts;
  if (!poison) {
    return queue_again(tx, job, concat(agent_name(job.agent), " disappeared"), rules, now_ms,
                       now_ms, changes);
  }
  job.state = v1::JOB_STATE_DEAD;
  job.ended_ms = now_ms;
  job.detail = concat("given up after ", job.attempt, " attempts; disappeared with it: ",
                      absl::StrJoin(distinct, ", "));
  RETURN_IF_ERROR(update_job(tx, job));
  if (job.candidates > 1) {
    RETURN_IF_ERROR(tell_lost(tx, job, job.detail + "; split", now_ms, changes));
    return split(tx, job, now_ms, changes);
  }
  RETURN_IF_ERROR(tell_lost(tx, job, job.detail, now_ms, changes));
  return charge_candidate(tx, job, now_ms, changes);
}

absl::StatusOr<int> expire_leases(WriteTransaction& tx, const LeaseRules& rules, int count,
                                  int64_t now_ms, Changes* changes) {
  ASSIGN_OR_RETURN(std::vector<JobRow> jobs,
                   select_jobs(tx, "WHERE state = 'leased' AND lease_until < ? "
                                   "ORDER BY lease_until LIMIT ?",
                               {now_ms, int64_t{count}}));
  for (JobRow& job : jobs) {
    ++changes->expired;
    RETURN_IF_ERROR(lose_job(tx, std::move(job), rules, now_ms, changes));
  }
  return static_cast<int>(jobs.size());
}

absl::Status lose_sessions(WriteTransaction& tx, std::string_view agent,
                           std::string_view current_session, const LeaseRules& rules,
                           int64_t now_ms, Changes* changes) {
  ASSIGN_OR_RETURN(std::vector<JobRow> jobs,
                   select_jobs(tx, "WHERE state = 'leased' AND agent = ? AND session <> ? "
                                   "ORDER BY id",
                               {agent, current_session}));
  for (JobRow& job : jobs) {
    RETURN_IF_ERROR(lose_job(tx, std::move(job), rules, now_ms, changes));
  }
  return absl::OkStatus();
}

}  // namespace lw
