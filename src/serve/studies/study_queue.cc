#include "src/serve/studies/study_queue.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/message.h"
#include "src/net/times.h"
#include "src/serve/messages/errors.h"
#include "src/serve/messages/names.h"
#include "src/serve/queue/devices.h"
#include "src/serve/rows/online.h"
#include "src/serve/studies/studies.h"
#include "tuner_db/messages/messages.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

constexpr int kWritesAtOnce = 200;         // studies of one look
constexpr int64_t kForgetMs = 30'000;      // a target that was stored since may be emulated
constexpr char kUnfit[] = "no device that it fits";

std::string no_device(const std::string& asked) {
  return asked == "any" ? "no device" : concat("no device: ", asked, " is wanted");
}

// What there is, for who reads why a study waits.
absl::StatusOr<std::string> fleet_text(Transaction& tx, int64_t since_ms) {
  ASSIGN_OR_RETURN(const std::vector<DeviceRow> devices,
                   select_devices(tx, concat("WHERE ", kOnline), {since_ms}));
  std::map<std::string, int> open, closed;
  for (const DeviceRow& device : devices) {
    if (device.admission == v1::DEVICE_ADMISSION_OPEN) {
      ++open[device.description.target().name()];
    } else {
      ++closed[state_name(device.admission)];
    }
  }
  std::string text;
  for (const auto& [target, count] : open) {
    text += concat(text.empty() ? "there are " : ", ", count, " ", target);
  }
  if (text.empty()) text = "none is online";
  for (const auto& [state, count] : closed) text += concat("; ", count, " ", state);
  return text;
}

absl::Status add_waiting(WriteTransaction& tx, const StudyRow& study, std::string detail,
                         int64_t now_ms, Changes* changes) {
  v1::StudyEvent event;
  event.set_kind(v1::StudyEvent::KIND_WAITING);
  event.set_state(v1::STUDY_STATE_QUEUED);
  event.set_trials(study.trials);
  event.set_failed(study.failed);
  event.set_detail(std::move(detail));
  event.set_elapsed_s(1e-3 * static_cast<double>(now_ms - study.created_ms));
  changes->studies.insert(study.id);
  return add_event(tx, study.id, now_ms, std::move(event));
}

absl::StatusOr<std::vector<std::string>> texts(Query query) {
  std::vector<std::string> found;
  while (query.next()) found.push_back(query.text(0));
  RETURN_IF_ERROR(query.status());
  return found;
}

absl::StatusOr<StudyNeeds> needs_of(Transaction& tx, const std::string& study) {
  StudyNeeds needs;
  Query query = tx.query("SELECT min(memory), max(memory) FROM study_workloads "
                         "WHERE study = ? AND done = 0", study);
  if (query.next()) needs = {query.real(0), query.real(1)};
  RETURN_IF_ERROR(query.status());
  return needs;
}

}  // namespace

int64_t wait_until(const v1::StudySpec& spec, int64_t most_s, int64_t now_ms) {
  if (spec.has_most_waiting()) {
    most_s = std::min(most_s, std::max<int64_t>(1, spec.most_waiting().seconds()));
  }
  return now_ms + 1000 * most_s;
}

v1::StudySpec spec_asked(const StudyRow& study) {
  v1::StudySpec spec = study.spec;
  spec.set_target(study.asked);
  spec.set_threads(study.threads);
  return spec;
}

absl::Status put_back(WriteTransaction& tx, const SearchSeat& seat, StudyRow study,
                      std::string_view reason, Changes* changes) {
  const int64_t now_ms = seat.now_ms();
  ASSIGN_OR_RETURN(const std::vector<StudyWorkloadRow> workloads, workloads_of(tx, study.id));
  if (workloads.empty()) return damaged(tx, concat("study ", study.id));
  study.state = v1::STUDY_STATE_QUEUED;
  study.updated_ms = now_ms;
  RETURN_IF_ERROR(update_study(tx, study));
  RETURN_IF_ERROR(tx.query("UPDATE studies SET asked = ?, threads = ?, waiting = ?, "
                           "waiting_ms = ?, wait_until = ?, owner = '', owner_until = 0 "
                           "WHERE id = ?", study.target, workloads[0].threads, reason, now_ms,
                           wait_until(study.spec, seat.most_waiting_s, now_ms),
                           study.id).run());
  ASSIGN_OR_RETURN(const std::string there, fleet_text(tx, now_ms - seat.online_ms));
  return add_waiting(tx, study, concat(reason, "; ", there), now_ms, changes);
}

absl::StatusOr<Taken> take_study(WriteTransaction& tx, const SearchSeat& seat,
                                 const std::string& id, int64_t owner_until, Changes* changes) {
  ASSIGN_OR_RETURN(std::optional<StudyRow> study, find_study(tx, id));
  if (!study || study->state != v1::STUDY_STATE_QUEUED) return Taken::kGone;
  const int64_t now_ms = seat.now_ms();
  ASSIGN_OR_RETURN(const StudyNeeds needs, needs_of(tx, id));
  const absl::StatusOr<std::optional<StudyPlace>> found =
      place(tx, spec_asked(*study), needs, now_ms - seat.online_ms);
  if (!found.ok() && reason_of(found.status()) == v1::ERROR_REASON_WRONG_STATE) {
    RETURN_IF_ERROR(end_study(tx, *study, v1::STUDY_STATE_FAILED,
                              std::string(found.status().message()), now_ms, changes));
    return Taken::kGone;
  }
  RETURN_IF_ERROR(found.status());
  if (!found->has_value()) return Taken::kUnfit;
  const StudyPlace& place = **found;
  RETURN_IF_ERROR(store_in(tx)->put_target(place.target, *place.identity));
  if (!study->target.empty()) {            // it had a place: its records are of that key
    ASSIGN_OR_RETURN(const std::vector<StudyWorkloadRow> before, workloads_of(tx, id));
    const bool same = !before.empty() && place.target == study->target &&
                      place.backend == before[0].backend && place.time_kind == before[0].time_kind;
    if (!same) return Taken::kUnfit;
    RETURN_IF_ERROR(tx.query("UPDATE jobs SET target = ? WHERE study = ? AND target <> ? AND "
                             "state IN ('queued', 'leased')", place.device_target, id,
                             place.device_target).run());
  }
  study->target = place.target;
  study->device_target = place.device_target;
  study->state = v1::STUDY_STATE_RUNNING;
  study->updated_ms = now_ms;
  RETURN_IF_ERROR(update_study(tx, *study));
  RETURN_IF_ERROR(tx.query("UPDATE studies SET owner = ?, owner_epoch = owner_epoch + 1, "
                           "owner_until = ?, waiting = '', waiting_ms = 0, wait_until = 0 "
                           "WHERE id = ?", seat.owner, owner_until, id).run());
  changes->studies.insert(id);
  changes->queued.insert(queue_of(place.device_target, place.backend));
  RETURN_IF_ERROR(tx.query("UPDATE study_workloads SET backend = ?, threads = ?, "
                           "time_kind = ? WHERE study = ?", place.backend, place.threads,
                           static_cast<int>(place.time_kind), id).run());
  return Taken::kTaken;
}

// From each group straight to the next: a few look-ups of the index a group, however many studies.
absl::StatusOr<std::vector<StudyQueue::Group>> StudyQueue::groups(Transaction& tx) {
  static constexpr const char* kAfter[] = {
      "", "AND client > ?", "AND client = ? AND asked > ?",
      "AND client = ? AND asked = ? AND threads > ?",
      "AND client = ? AND asked = ? AND threads = ? AND waiting > ?"};
  std::vector<Group> all;
  for (int equal = 0; equal >= 0;) {       // how much of the group the next one may share, and more
    std::vector<Value> values;
    if (!all.empty()) {
      const Group& last = all.back();
      values = {std::string_view(last.client), std::string_view(last.asked),
                int64_t{last.threads}, std::string_view(last.waiting)};
      values.resize(static_cast<size_t>(equal));
    }
    Query query = tx.query_values(
        absl::StrCat("SELECT client, asked, threads, waiting FROM studies WHERE state = 'queued' ",
                     kAfter[equal], " ORDER BY client, asked, threads, waiting LIMIT 1"), values);
    if (query.next()) {
      all.push_back({query.text(0), query.text(1), query.text(3),
                     static_cast<int>(query.integer(2))});
      equal = 4;
      continue;
    }
    RETURN_IF_ERROR(query.status());
    equal = all.empty() || equal == 1 ? -1 : equal - 1;
  }
  return all;
}

absl::StatusOr<std::vector<StudyQueue::Waiting>> StudyQueue::first_of(Transaction& tx,
                                                                      const Group& group,
                                                                      int most) {
  std::vector<Waiting> found;
  Query query = tx.query(
      "SELECT id, priority FROM studies WHERE state = 'queued' AND client = ? AND asked = ? AND "
      "threads = ? AND waiting = ? ORDER BY priority DESC, id LIMIT ?",
      group.client, group.asked, group.threads, group.waiting, most);
  while (query.next()) found.push_back({query.text(0), query.integer(1)});
  RETURN_IF_ERROR(query.status());
  return found;
}

// Another fleet: all is worked out anew.
absl::Status StudyQueue::look_at_fleet(Transaction& tx) {
  const int64_t now_ms = seat_.now_ms();
  std::set<std::string> lines;
  Query query = tx.query(
      concat("SELECT id, target FROM devices WHERE admission = 'open' AND ", kOnline),
      now_ms - seat_.online_ms);
  while (query.next()) lines.insert(concat(query.text(0), " ", query.text(1)));
  RETURN_IF_ERROR(query.status());
  std::string fleet = absl::StrJoin(lines, "\n");
  if (fleet == fleet_ && fleet_ms_ >= 0 && now_ms - fleet_ms_ < kForgetMs) return absl::OkStatus();
  fleet_ = std::move(fleet);
  fleet_ms_ = now_ms;
  why_.clear();
  unfit_.clear();
  return absl::OkStatus();
}

// Why none of the group can have a place; "": one can.
absl::StatusOr<std::string> StudyQueue::why(Transaction& tx, const Group& group) {
  const auto [known, is_new] = why_.try_emplace({group.asked, group.threads});
  if (!is_new) return known->second;
  v1::StudySpec spec;
  spec.set_target(group.asked);
  spec.set_threads(group.threads);
  const absl::StatusOr<std::optional<StudyPlace>> found =
      place(tx, spec, {}, seat_.now_ms() - seat_.online_ms);
  // What never will be is told to each by itself (take_study).
  const bool may_be = found.ok() ? found->has_value()
                                 : reason_of(found.status()) == v1::ERROR_REASON_WRONG_STATE;
  if (!found.ok() && !may_be) {
    why_.erase(known);
    return found.status();
  }
  if (may_be) return known->second;
  const absl::StatusOr<Target> target = store_in(tx)->target(group.asked);  // people know names
  known->second = no_device(target.ok() ? target->name : group.asked);
  return known->second;
}

absl::StatusOr<StudyQueue::Look> StudyQueue::look(int room, std::map<std::string, int> seats) {
  struct Ours {
    std::vector<Waiting> studies;          // as far as there is room
    size_t taken = 0;
  };
  std::map<std::string, Ours> clients;
  std::map<std::string, std::vector<std::string>> to_say;  // by reason
  std::vector<std::string> to_read;
  size_t writes = 0;
  RETURN_IF_ERROR(seat_.database->read(5, [&](Transaction& tx) -> absl::Status {
    clients.clear(), to_say.clear(), to_read.clear();
    writes = 0;
    RETURN_IF_ERROR(look_at_fleet(tx));
    ASSIGN_OR_RETURN(const std::vector<Group> all, groups(tx));
    for (const Group& group : all) {
      const bool is_old = group.asked.empty();
      std::string reason;
      if (!is_old) {
        ASSIGN_OR_RETURN(reason, why(tx, group));
      }
      const bool may_be = !is_old && reason.empty();
      if (may_be && room > 0) {
        ASSIGN_OR_RETURN(const std::vector<Waiting> first,
                         first_of(tx, group, room + static_cast<int>(unfit_.size())));
        std::vector<Waiting>& ours = clients[group.client].studies;
        std::copy_if(first.begin(), first.end(), std::back_inserter(ours),
                     [this](const Waiting& one) { return !unfit_.contains(one.id); });
      }
      if (may_be && (group.waiting.empty() || group.waiting == kUnfit)) continue;
      if (may_be ? room > 0 : reason == group.waiting && !is_old) continue;
      const int most = kWritesAtOnce - static_cast<int>(writes);
      if (most <= 0) continue;
      ASSIGN_OR_RETURN(const std::vector<Waiting> some, first_of(tx, group, most));
      writes += some.size();
      for (const Waiting& one : some) {
        (is_old ? to_read : to_say[reason]).push_back(one.id);
      }
    }
    return absl::OkStatus();
  }));
  Look look;
  look.has_more = writes >= kWritesAtOnce || !to_read.empty();
  for (const auto& [reason, studies] : to_say) RETURN_IF_ERROR(say(studies, reason));
  if (!to_read.empty()) RETURN_IF_ERROR(read_specs(to_read));
  RETURN_IF_ERROR(end_overdue(&look.has_more));
  const auto before = [](const Waiting& a, const Waiting& b) {
    return std::pair(-a.priority, a.id) < std::pair(-b.priority, b.id);
  };
  for (auto& [client, ours] : clients) {
    std::sort(ours.studies.begin(), ours.studies.end(), before);
  }
  while (static_cast<int>(look.next.size()) < room) {
    Ours* chosen = nullptr;
    int fewest = 0;
    for (auto& [client, ours] : clients) {
      if (ours.taken == ours.studies.size()) continue;
      const int held = seats[client] + static_cast<int>(ours.taken);
      const bool first = chosen == nullptr || held < fewest ||
                         (held == fewest && before(ours.studies[ours.taken],
                                                   chosen->studies[chosen->taken]));
      if (first) chosen = &ours, fewest = held;
    }
    if (chosen == nullptr) break;
    look.next.push_back(chosen->studies[chosen->taken++].id);
  }
  return look;
}

absl::Status StudyQueue::is_unfit(const std::string& study) {
  unfit_.insert(study);
  return say({study}, kUnfit);
}

// Once for each study and reason; "": it waits for a seat alone.
absl::Status StudyQueue::say(const std::vector<std::string>& studies, const std::string& waiting) {
  const auto changes = std::make_shared<Changes>();
  RETURN_IF_ERROR(seat_.commit([this, &studies, &waiting, changes](WriteTransaction& tx)
                                   -> absl::Status {
    *changes = Changes();
    const int64_t now_ms = seat_.now_ms();
    ASSIGN_OR_RETURN(const std::string there, fleet_text(tx, now_ms - seat_.online_ms));
    for (const std::string& id : studies) {
      RETURN_IF_ERROR(tx.query("UPDATE studies SET waiting = ? WHERE id = ? AND "
                               "state = 'queued' AND waiting <> ?", waiting, id,
                               waiting).run());
      if (tx.changes() != 1 || waiting.empty()) continue;
      StudyRow study;
      study.id = id;
      Query query = tx.query("SELECT trials, failed, created_ms FROM studies WHERE id = ?", id);
      if (query.next()) {
        study.trials = static_cast<int>(query.integer(0));
        study.failed = static_cast<int>(query.integer(1));
        study.created_ms = query.integer(2);
      }
      RETURN_IF_ERROR(query.status());
      RETURN_IF_ERROR(add_waiting(tx, study, concat(waiting, "; ", there), now_ms, changes.get()));
    }
    return absl::OkStatus();
  }));
  seat_.changed(*changes);
  return absl::OkStatus();
}

// Of a database that an older daemon has written: they begin to wait now.
absl::Status StudyQueue::read_specs(const std::vector<std::string>& studies) {
  return seat_.commit([this, &studies](WriteTransaction& tx) -> absl::Status {
    for (const std::string& id : studies) {
      ASSIGN_OR_RETURN(const std::optional<StudyRow> study, find_study(tx, id));
      if (!study || !study->asked.empty()) continue;
      const int64_t now_ms = seat_.now_ms();
      const std::string asked = study->spec.target().empty() ? "any" : study->spec.target();
      RETURN_IF_ERROR(tx.query("UPDATE studies SET asked = ?, threads = ?, waiting_ms = ?, "
                               "wait_until = ? WHERE id = ?", asked, study->spec.threads(),
                               now_ms, wait_until(study->spec, seat_.most_waiting_s, now_ms),
                               id).run());
    }
    return absl::OkStatus();
  });
}

absl::Status StudyQueue::end_overdue(bool* has_more) {
  constexpr char kOverdue[] = "SELECT id FROM studies WHERE state = 'queued' AND wait_until > 0 "
                              "AND wait_until < ? ORDER BY wait_until LIMIT ?";
  const int64_t now_ms = seat_.now_ms();
  std::vector<std::string> overdue;
  RETURN_IF_ERROR(seat_.database->read(5, [&](Transaction& tx) -> absl::Status {
    ASSIGN_OR_RETURN(overdue, texts(tx.query(kOverdue, now_ms, kWritesAtOnce)));
    return absl::OkStatus();
  }));
  if (overdue.empty()) return absl::OkStatus();
  *has_more = true;
  const auto changes = std::make_shared<Changes>();
  RETURN_IF_ERROR(seat_.commit([&overdue, now_ms, changes](WriteTransaction& tx) -> absl::Status {
    *changes = Changes();
    for (const std::string& id : overdue) {
      ASSIGN_OR_RETURN(std::optional<StudyRow> study, find_study(tx, id));
      if (!study || study->state != v1::STUDY_STATE_QUEUED || study->wait_until > now_ms) continue;
      RETURN_IF_ERROR(end_study(tx, *study, v1::STUDY_STATE_FAILED,
                                concat("waited for ", (now_ms - study->waiting_ms) / 1000, " s: ",
                                       study->waiting.empty() ? "no seat was free" : study->waiting),
                                now_ms, changes.get()));
    }
    return absl::OkStatus();
  }));
  seat_.changed(*changes);
  return absl::OkStatus();
}

}  // namespace lw
