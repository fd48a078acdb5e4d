#include "src/serve/queue/synchronize.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/hash.h"
#include "src/base/message.h"
#include "src/net/times.h"
#include "src/serve/access/admission.h"
#include "src/serve/messages/errors.h"
#include "src/serve/messages/names.h"
#include "src/serve/queue/results.h"
#include "tuner_db/invariants.h"
#include "tuner_db/messages/messages.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

constexpr size_t kSessionsKept = 8;        // of agents that do not count them
constexpr size_t kJobBytes = size_t{8} << 20;  // of an answer, and one job more: agents take 32 MiB
constexpr int64_t kUnsupportedRetryMs = 60'000;
constexpr int64_t kNameKeptMs = 24 * 3'600'000;  // of a silent device, for its own agent
constexpr int64_t kSeenMs = 5000;          // how exactly rows say when somebody was seen

using Leased = std::map<int64_t, JobRow>;  // by id, payloads left out

class Synchronization {
 public:
  Synchronization(WriteTransaction& tx, const SyncCall& call, Shares& shares,
                  const LeaseRules& rules, int64_t now_ms, SyncAnswer* answer)
      : tx_(tx), call_(call), request_(*call.request), shares_(shares), rules_(rules),
        now_ms_(now_ms), answer_(*answer), agent_(id_of(request_.agent())) {}

  absl::Status run() {
    RETURN_IF_ERROR(meet());
    for (const v1::DeviceState& device : request_.devices()) RETURN_IF_ERROR(describe(device));
    if (brings_only(others_)) {
      return api_error(v1::ERROR_REASON_ROLE_DENIED,
                       answer_.response.refused_devices().begin()->second);
    }
    for (const v1::JobResult& result : request_.results()) {
      ASSIGN_OR_RETURN(v1::Receipt receipt,
                       accept_result(tx_, {.agent = agent_, .session = request_.session()}, result,
                                     rules_, now_ms_, &answer_.changes));
      settle(result, receipt);
      *answer_.response.add_receipts() = std::move(receipt);
    }
    if (request_.results_size() > 0) RETURN_IF_ERROR(look_again());
    RETURN_IF_ERROR(review_leases());
    RETURN_IF_ERROR(review_losses());
    for (const v1::DeviceState& device : request_.devices()) RETURN_IF_ERROR(give_work(device));
    if (request_.leaving() && call_.is_latest) RETURN_IF_ERROR(see_off());
    // A program of before words would end at that.
    if (brings_only(unsupported_) && says_words_) {
      answer_.refusal = retry_later(v1::ERROR_REASON_VERSION_UNSUPPORTED,
                                    concat(request_.agent(), ", version ", request_.version(), ": ",
                                           answer_.response.refused_devices().begin()->second),
                                    kUnsupportedRetryMs);
    }
    *answer_.response.mutable_lease() = duration_of_ms(rules_.ttl_ms);
    return absl::OkStatus();
  }

 private:
  // The session: a new one ends the one before, whose jobs are lost; an ended one is told so.
  absl::Status meet() {
    ASSIGN_OR_RETURN(std::optional<AgentRow> row, find_agent(tx_, agent_));
    const std::string& session = request_.session();
    if (!row) row = AgentRow{agent_, {}, "", "", "", 0};
    const bool is_current = !row->sessions.empty() && row->sessions[0] == session;
    if (!is_current) {
      const int64_t number = request_.session_number();
      if (std::count(row->sessions.begin(), row->sessions.end(), session) > 0 ||
          (number > 0 && number < row->session_number)) {
        return api_error(v1::ERROR_REASON_SESSION_REPLACED,
                         concat("another ", request_.agent(), " has taken over; a name must be "
                                "used by one agent at a time"));
      }
      row->sessions.insert(row->sessions.begin(), session);
      if (row->sessions.size() > kSessionsKept) row->sessions.resize(kSessionsKept);
      // A number that is not known yet is of a time after the backup that was restored.
      row->session_number = std::max(row->session_number, number) + 1;
      // Who was never here holds nothing: a fleet that starts would look through all leases for
      // each.
      if (row->sessions.size() > 1) {
        RETURN_IF_ERROR(lose_sessions(tx_, agent_, session, rules_, now_ms_, &answer_.changes));
      }
    }
    answer_.response.set_session_number(row->session_number);
    losses_ = row->losses;
    has_lost_ = losses_ > 0 || !is_current;
    const bool is_back = row->left_ms > 0 && comes();
    if (is_current && !is_back && row->seen_ms + kSeenMs > now_ms_) return absl::OkStatus();
    if (is_back) row->left_ms = 0;
    row->version = request_.version();
    row->labels = nlohmann::json(std::map<std::string, std::string>(
        request_.labels().begin(), request_.labels().end())).dump();
    row->peer = call_.peer;
    row->seen_ms = now_ms_;
    return put_agent(tx_, *row);
  }

  absl::Status describe(const v1::DeviceState& state) {
    const std::string id = id_of(state.name());
    ASSIGN_OR_RETURN(std::optional<DeviceRow> row, find_device(tx_, id));
    const bool is_others = row && row->agent != agent_;
    if (is_others && !may_move(*row, state)) {
      ++others_;
      turn_away(state, concat(state.name(), " belongs to ", agent_name(row->agent)));
      return absl::OkStatus();
    }
    if (!row || is_others) {
      ASSIGN_OR_RETURN(const int64_t known, known_devices());
      if (known >= kMostDevices) {
        turn_away(state, concat(request_.agent(), " has ", known, " devices, as many as an agent "
                                "may; names that are not used any more are forgotten in time "
                                "(retention.device_days of the server)"));
        return absl::OkStatus();
      }
    }
    if (!row && !state.has_description()) {
      answer_.response.set_describe(true);
      return absl::OkStatus();
    }
    const std::string agent_before = row ? row->agent : "";
    const std::string target_before = row ? row->target : "";
    const v1::DeviceAdmission admission_before =
        row ? row->admission : v1::DEVICE_ADMISSION_UNSPECIFIED;
    if (!row) {
      row = DeviceRow();
      row->id = id;
      row->evidence = "[]";
      RETURN_IF_ERROR(inherit_quarantine(state, &*row));
    }
    if (state.has_description()) {
      ASSIGN_OR_RETURN(const Target target, from_proto(state.description().target()));
      RETURN_IF_ERROR(store_in(tx_)->put_target(state.description().target_id(), target));
      row->description = state.description();
      row->description.set_name(state.name());
      row->description.set_agent(request_.agent());
      row->target = state.description().target_id();
    }
    // A health that only a newer agent knows counts as none said.
    const bool said = v1::DeviceHealth_IsValid(state.health()) &&
                      state.health() != v1::DEVICE_HEALTH_UNSPECIFIED;
    const v1::DeviceHealth health = said ? state.health() : v1::DEVICE_HEALTH_OK;
    const bool is_back = row->left_ms > 0 && comes();
    if (is_back) row->left_ms = 0;
    if (row->agent != agent_) ++*known_devices_;
    row->agent = agent_;
    const bool is_another = row->agent != agent_before || row->target != target_before;
    RETURN_IF_ERROR(review_admission(tx_, call_.new_devices_wait, is_another, &*row));
    const bool news = state.has_description() || health != row->health || is_another || is_back ||
                      row->admission != admission_before || row->seen_ms + kSeenMs <= now_ms_;
    row->health = health;
    if (news) {
      row->seen_ms = now_ms_;
      RETURN_IF_ERROR(put_device(tx_, *row));
    }
    if (row->admission == v1::DEVICE_ADMISSION_PENDING ||
        row->admission == v1::DEVICE_ADMISSION_UNSUPPORTED) {
      refuse(state, row->reason);
      unsupported_ += row->admission == v1::DEVICE_ADMISSION_UNSUPPORTED;
    }
    says_words_ |= row->description.words_size() > 0;
    devices_[id] = *std::move(row);
    return absl::OkStatus();
  }

  // It alone: the others, and what was measured, are not at fault.
  void refuse(const v1::DeviceState& state, std::string why) {
    (*answer_.response.mutable_refused_devices())[state.name()] = std::move(why);
  }
  // It is not taken down at all.
  void turn_away(const v1::DeviceState& state, std::string why) {
    refuse(state, std::move(why));
    answer_.response.add_draining_devices(state.name());
  }

  // Whether so many devices are all that there is to the call: no result of theirs, nor a job.
  bool brings_only(int devices) const {
    return devices > 0 && devices == request_.devices_size() && request_.results().empty() &&
           std::all_of(request_.devices().begin(), request_.devices().end(),
                       [](const v1::DeviceState& device) { return device.held().empty(); });
  }

  // Of the agent, whether it lists them or not.
  absl::StatusOr<int64_t> known_devices() {
    if (known_devices_) return *known_devices_;
    Query query = tx_.query("SELECT count(*) FROM devices WHERE agent = ?", agent_);
    known_devices_ = query.next() ? query.integer(0) : 0;
    RETURN_IF_ERROR(query.status());
    return *known_devices_;
  }

  // What a job of its client's took, now that it is known.
  void settle(const v1::JobResult& result, const v1::Receipt& receipt) {
    const bool is_over = receipt.kind() == v1::RECEIPT_KIND_STORED ||
                         receipt.kind() == v1::RECEIPT_KIND_REFUSED;
    const absl::StatusOr<int64_t> job = parse_job_name(result.job(), "results.job");
    if (!is_over || !job.ok()) return;
    shares_.probation.end(*job);
    if (result.failure() != v1::VERDICT_UNSPECIFIED) return;  // which does not say how long it took
    const double seconds = seconds_of(result.prepare_time()) + seconds_of(result.run_time());
    shares_.clients.settle({*job, result.epoch()}, std::max(0.0, seconds), now_ms_);
  }

  // It is here to stay. A call that a later one has overtaken says nothing of that.
  bool comes() const { return call_.is_latest && !request_.leaving(); }

  // It has said that it leaves, and is gone when nothing is leased to it any more.
  absl::Status see_off() {
    Query held = tx_.query("SELECT 1 FROM jobs WHERE state = 'leased' AND device IN (SELECT "
                           "id FROM devices WHERE agent = ?) LIMIT 1", agent_);
    const bool holds = held.next();
    RETURN_IF_ERROR(held.status());
    if (holds) return absl::OkStatus();
    for (const char* sql : {"UPDATE devices SET left_ms = ? WHERE agent = ? AND left_ms = 0",
                            "UPDATE agents SET left_ms = ? WHERE id = ? AND left_ms = 0"}) {
      RETURN_IF_ERROR(tx_.query(sql, now_ms_, agent_).run());
    }
    return absl::OkStatus();
  }

  // A result may have closed its device.
  absl::Status look_again() {
    for (auto& [id, row] : devices_) {
      ASSIGN_OR_RETURN(std::optional<DeviceRow> now, find_device(tx_, id));
      if (now) row = *std::move(now);
    }
    return absl::OkStatus();
  }

  // Its agent has left, or has not been seen for long: the same machine may say who it is anew at
  // once, or soon; another may take the name once it is as good as free.
  bool may_move(const DeviceRow& row, const v1::DeviceState& state) const {
    const bool same = state.has_description() && !row.description.fingerprint().empty() &&
                      state.description().fingerprint() == row.description.fingerprint();
    if (same && row.left_ms > 0) return true;
    return row.seen_ms + (same ? 4 * rules_.ttl_ms : kNameKeptMs) < now_ms_;
  }

  // A quarantine is of the machine: another name does not end it.
  absl::Status inherit_quarantine(const v1::DeviceState& state, DeviceRow* row) {
    ASSIGN_OR_RETURN(const std::vector<DeviceRow> closed,
                     select_devices(tx_, "WHERE agent = ? AND admission = 'quarantined'",
                                    {std::string_view(agent_)}));
    for (const DeviceRow& other : closed) {
      const bool is_there = std::any_of(
          request_.devices().begin(), request_.devices().end(),
          [&](const v1::DeviceState& one) { return one.name() == device_name(other.id); });
      if (is_there || other.description.fingerprint() != state.description().fingerprint()) continue;
      row->admission = other.admission;
      row->evidence = other.evidence;
      row->reason = concat("was ", device_name(other.id), ": ", other.reason);
      return absl::OkStatus();
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Leased> leased() {
    Leased leased;
    for (const auto& [id, row] : devices_) {
      Query query = tx_.query("SELECT id, epoch, lease_until FROM jobs "
                              "WHERE state = 'leased' AND device = ?", id);
      while (query.next()) {
        JobRow job;
        job.id = query.integer(0), job.epoch = query.integer(1), job.lease_until = query.integer(2);
        job.device = id;
        leased.emplace(job.id, std::move(job));
      }
      RETURN_IF_ERROR(query.status());
    }
    return leased;
  }

  absl::Status review_leases() {
    ASSIGN_OR_RETURN(Leased leased, this->leased());
    std::set<std::pair<int64_t, int64_t>> listed;
    for (const v1::DeviceState& device : request_.devices()) {
      for (const v1::HeldJob& held : device.held()) {
        ASSIGN_OR_RETURN(const int64_t id, parse_job_name(held.job(), "held.job"));
        if (!listed.emplace(id, held.epoch()).second) continue;
        const auto job = leased.find(id);
        if (job == leased.end() || job->second.epoch != held.epoch()) {
          v1::CancelOrder& cancel = *answer_.response.add_cancels();
          cancel.set_job(held.job());
          cancel.set_epoch(held.epoch());
          cancel.set_reason("the lease is over");
          continue;
        }
        if (job->second.lease_until - now_ms_ < rules_.ttl_ms * 2 / 3) {
          RETURN_IF_ERROR(tx_.query("UPDATE jobs SET lease_until = ? WHERE id = ?",
                                    now_ms_ + rules_.ttl_ms, id).run());
        }
        leased.erase(job);
      }
    }
    if (!call_.is_latest) return absl::OkStatus();
    for (const auto& [id, row] : leased) {
      ASSIGN_OR_RETURN(std::optional<JobRow> job, find_job(tx_, id));
      if (!job || job->state != v1::JOB_STATE_LEASED) continue;
      if (gets_again(*job)) {
        if (job_bytes_ >= kJobBytes) continue;  // the next answer has room
        give(*job, job->lease_until - now_ms_);
        ++given_again_[job->device];
        continue;
      }
      RETURN_IF_ERROR(note_loss(tx_, agent_, rules_, now_ms_));
      RETURN_IF_ERROR(release_job(tx_, *std::move(job), "its agent never got it", rules_,
                                  now_ms_, now_ms_, &answer_.changes));
      has_lost_ = true;
    }
    return absl::OkStatus();
  }

  // Whether a job that never reached its agent is given to it once more: the answer with it was
  // lost a moment ago, mostly because the agent had something to say and hung up. It is the same
  // attempt. The lease goes on from its beginning: who never lists a job does not keep it.
  bool gets_again(const JobRow& job) const {
    if (request_.leaving() || call_.stopping || job.session != request_.session()) return false;
    if (job.leased_ms + rules_.ttl_ms / 3 < now_ms_) return false;
    const auto device = devices_.find(job.device);
    if (device == devices_.end() || device->second.admission != v1::DEVICE_ADMISSION_OPEN ||
        device->second.description.backend() != job.backend) {
      return false;
    }
    return std::any_of(request_.devices().begin(), request_.devices().end(),
                       [&](const v1::DeviceState& one) {
                         return id_of(one.name()) == job.device && one.wanted() > 0;
                       });
  }

  void give(const JobRow& job, int64_t lease_ms) {
    v1::Job message = job_message(job, rules_);
    *message.mutable_lease() = duration_of_ms(lease_ms);
    job_bytes_ += message.ByteSizeLong();
    *answer_.response.add_jobs() = std::move(message);
  }

  // Whoever finishes what it takes is trusted again.
  absl::Status review_losses() {
    if (!has_lost_) return absl::OkStatus();
    const auto done = answer_.changes.attempts.find("done");
    if (done != answer_.changes.attempts.end() && done->second > 0) {
      return forget_losses(tx_, agent_);
    }
    ASSIGN_OR_RETURN(rests_until_ms_, rest_of(tx_, agent_));
    answer_.rests = rests_until_ms_ > now_ms_;
    return absl::OkStatus();
  }

  absl::Status give_work(const v1::DeviceState& state) {
    const std::string id = id_of(state.name());
    const auto device = devices_.find(id);
    if (device == devices_.end()) return absl::OkStatus();
    if (device->second.admission != v1::DEVICE_ADMISSION_OPEN) {
      answer_.response.add_draining_devices(state.name());
      return absl::OkStatus();
    }
    if (answer_.rests) {
      hold_until(rests_until_ms_);
      return absl::OkStatus();
    }
    const std::string& backend = device->second.description.backend();
    const std::string queue = queue_of(device->second.target, backend);
    answer_.queues[id] = queue;
    const bool takes = state.wanted() > 0 && call_.is_latest && !request_.leaving() &&
                       !call_.stopping && state.health() != v1::DEVICE_HEALTH_UNHEALTHY;
    if (!takes) return absl::OkStatus();
    Claims claims;
    if (const auto known = call_.prepared.find(id); known != call_.prepared.end()) {
      claims = known->second;
    }
    claims.count = std::max(0, state.wanted() - given_again_[id]);
    claims.most_bytes = kJobBytes - std::min(kJobBytes, job_bytes_);
    const bool has_room = claims.most_bytes > 0;  // else the next answer has
    // Who never finished anything, or has just lost something, gets no more than one to lose.
    const bool is_proven = device->second.jobs_done > 0 && losses_ == 0;
    if (!is_proven) {
      const int room =
          std::max(0, rules_.unproven_jobs - state.held_size() - given_again_[id]);
      claims.count = std::min(claims.count, room);
    }
    if (claims.count == 0 || !has_room) return absl::OkStatus();
    const Holder holder{agent_, request_.session(), id, device->second.target, backend,
                        device->second.description.memory_bytes(), is_proven, losses_};
    ASSIGN_OR_RETURN(Claimed claimed, claim_jobs(tx_, holder, claims, shares_, rules_, now_ms_,
                                                 &answer_.changes));
    if (static_cast<int>(claimed.jobs.size()) < claims.count && !claimed.withheld) {
      answer_.exhausted.insert(queue);
    }
    if (claimed.held_until_ms > 0) hold_until(claimed.held_until_ms);
    answer_.waits_anew |= claimed.waits_anew;
    for (JobRow& job : claimed.jobs) {
      give(job, rules_.ttl_ms);
      answer_.claimed.push_back(std::move(job));
    }
    return absl::OkStatus();
  }

  // There may be work for it then.
  void hold_until(int64_t ms) {
    const int64_t before_ms = answer_.held_until_ms;
    answer_.held_until_ms = before_ms == 0 ? ms : std::min(before_ms, ms);
  }

  WriteTransaction& tx_;
  const SyncCall& call_;
  const v1::SynchronizeRequest& request_;
  Shares& shares_;
  const LeaseRules& rules_;
  const int64_t now_ms_;
  SyncAnswer& answer_;
  const std::string agent_;
  std::map<std::string, DeviceRow> devices_;  // of the request, by id
  std::optional<int64_t> known_devices_;   // of the agent, once they were counted
  int others_ = 0, unsupported_ = 0;       // devices that are other agents', or of another version
  bool says_words_ = false;                // its program is none of before words
  size_t job_bytes_ = 0;                   // given in this answer
  std::map<std::string, int> given_again_;  // jobs, by device id
  int64_t losses_ = 0;                     // of what it was given, since it finished one
  bool has_lost_ = false;                  // that, or perhaps something now
  int64_t rests_until_ms_ = 0;
};

}  // namespace

absl::Status synchronize(WriteTransaction& tx, const SyncCall& call, Shares& shares,
                         const LeaseRules& rules, int64_t now_ms, SyncAnswer* answer) {
  *answer = SyncAnswer();
  return Synchronization(tx, call, shares, rules, now_ms, answer).run();
}

}  // namespace lw
