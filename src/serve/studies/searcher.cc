#include "src/serve/studies/searcher.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/message.h"

namespace lw {

namespace {

constexpr std::chrono::seconds kLooksEvery(30);  // far more than a search takes between two looks
constexpr int64_t kLongStep_us = 1'000'000;   // of computing

}  // namespace

// A study and its thread.
struct Searcher::Owned {
  Owned(Searcher& searcher, std::string study, std::string who, int64_t e, bool suspect)
      : id(std::move(study)),
        client(std::move(who)),
        epoch(e),
        is_suspect(suspect),
        party(searcher.turns_.join(client)),
        stop([this, &searcher] { return searcher.look_up_from(*this); }),
        search(searcher.seat_, id, e, stop) {}

  const std::string id, client;
  const int64_t epoch;
  const bool is_suspect;                   // its first step may have ended a daemon
  const std::shared_ptr<Turns::Party> party;
  std::unique_ptr<Liveness::Task> task;    // while it is advanced
  std::string hopeless;                    // why it is to fail
  std::string problem;                     // that was logged last
  bool first = true;                       // step, under this owner
  const Stop stop;
  StudySearch search;
  bool dirty = true;                       // is to be advanced
  std::atomic<int64_t> used_us = 0;        // computing, in this step so far
  std::atomic<bool> noted = false;         // that the step is long
  std::thread thread;
};

Searcher::Searcher(SearchSeat seat, SearcherOptions options)
    : seat_([&] {
        seat.drafts = options.drafts;
        seat.most_kept = [this] { return options_.most_searches / std::max(1, owned()); };
        return std::move(seat);
      }()),
      options_(options), turns_(options.threads), queue_(seat_) {}

void Searcher::start() {
  housekeeper_ = std::thread([this] { adopt(); });
}

Searcher::~Searcher() { stop(); }

void Searcher::stop() {
  if (!housekeeper_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    for (const auto& [id, owned] : owned_) owned->stop.request();
  }
  turns_.close();
  changed_.notify_all();
  housekeeper_.join();
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return running_ == 0; });
  }
  join_ended();
  const absl::Status given_back = seat_.commit([this](WriteTransaction& tx) -> absl::Status {
    for (const auto& [id, epoch] : spared_) {
      RETURN_IF_ERROR(tx.query("UPDATE studies SET fruitless = fruitless - 1 WHERE id = ? AND "
                               "owner_epoch = ? AND fruitless > 0", id, epoch).run());
    }
    return tx.query("UPDATE studies SET owner = '', owner_until = 0 WHERE owner = ? "
                    "AND state IN ('queued', 'running')", seat_.owner).run();
  });
  if (!given_back.ok()) log(Level::kWarning, "studies_not_given_back",
                            {{"error", given_back.message().data()}});
}

void Searcher::wake(const std::string& study) {
  {
    std::lock_guard lock(mutex_);
    const auto found = owned_.find(study);
    if (found != owned_.end()) {
      found->second->dirty = true;
    } else {
      look_ = true;
    }
  }
  changed_.notify_all();
}

void Searcher::drop(const std::string& study) {
  std::lock_guard lock(mutex_);
  const auto found = owned_.find(study);
  if (found == owned_.end()) return;
  found->second->stop.request();
  found->second->dirty = true;
  changed_.notify_all();
}

void Searcher::wake_all() {
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, owned] : owned_) owned->dirty = true;
    look_ = true;
  }
  changed_.notify_all();
}

int Searcher::owned() const {
  std::lock_guard lock(mutex_);
  return static_cast<int>(owned_.size());
}

absl::Status Searcher::adopt_once() {
  int room = 0;
  {
    std::lock_guard lock(mutex_);
    room = options_.most_studies - static_cast<int>(owned_.size());
  }
  RETURN_IF_ERROR(adopt_running(std::max(0, room)));
  return fill_seats();
}

// Studies that have a place and no daemon. Which were taken is read back, so that a transaction that
// is run again takes no more than it says.
absl::Status Searcher::adopt_running(int room) {
  struct Orphan {
    std::string id, client;
    int64_t epoch = 0, fruitless = 0;
  };
  constexpr char kOrphans[] = "SELECT id, client, owner_epoch, fruitless FROM studies "
                              "WHERE state = 'running' AND ";
  const bool alone = !seat_.database->is_shared();
  const int64_t now = seat_.now_ms();
  std::vector<Orphan> orphans;
  RETURN_IF_ERROR(seat_.database->read(5, [&](Transaction& tx) -> absl::Status {
    orphans.clear();
    const auto read = [&](Query query) {
      std::vector<Orphan> found;
      while (query.next()) {
        found.push_back({query.text(0), query.text(1), query.integer(2), query.integer(3)});
      }
      orphans.insert(orphans.end(), found.begin(), found.end());
      return query.status();
    };
    RETURN_IF_ERROR(read(tx.query(
        absl::StrCat(kOrphans, "owner <> ? AND (owner_until < ? OR ? = 1) "
                               "ORDER BY fruitless, priority DESC, id LIMIT ?"),
        seat_.owner, now, int64_t{alone}, room)));
    const size_t others = orphans.size();
    RETURN_IF_ERROR(read(tx.query(absl::StrCat(kOrphans, "owner = ?"), seat_.owner)));
    std::set<std::string> still_ours;
    for (size_t i = others; i < orphans.size(); ++i) still_ours.insert(orphans[i].id);
    std::lock_guard lock(mutex_);
    // Ours by the database alone: dropped here after an error.
    std::erase_if(orphans, [this](const Orphan& one) { return owned_.contains(one.id); });
    // What ended, or went to another daemon, while it was computed for.
    for (const auto& [id, owned] : owned_) {
      if (!still_ours.contains(id)) owned->stop.request();
    }
    return absl::OkStatus();
  }));
  for (const Orphan& one : orphans) {
    int64_t taken = 0;
    RETURN_IF_ERROR(seat_.commit([&](WriteTransaction& tx) -> absl::Status {
      RETURN_IF_ERROR(tx.query("UPDATE studies SET owner = ?, owner_epoch = ?, "
                               "owner_until = ? WHERE id = ? AND owner_epoch = ? AND "
                               "state = 'running'",
                               seat_.owner, one.epoch + 1, now + options_.owner_ttl_ms,
                               one.id, one.epoch).run());
      taken = tx.changes();
      return absl::OkStatus();
    }));
    if (taken == 1) RETURN_IF_ERROR(sit_down(one.id, one.client, one.epoch + 1, one.fruitless));
  }
  return absl::OkStatus();
}

// Studies that wait, as far as there is room.
absl::Status Searcher::fill_seats() {
  std::map<std::string, int> held;
  int room = 0;
  {
    std::lock_guard lock(mutex_);
    room = options_.most_studies - static_cast<int>(owned_.size());
    for (const auto& [id, owned] : owned_) ++held[owned->client];
  }
  ASSIGN_OR_RETURN(const StudyQueue::Look look, queue_.look(std::max(0, room), held));
  bool again = look.has_more;
  for (const std::string& id : look.next) {
    const auto changes = std::make_shared<Changes>();
    Taken taken = Taken::kGone;
    StudyRow row;
    RETURN_IF_ERROR(seat_.commit([&, changes](WriteTransaction& tx) -> absl::Status {
      *changes = Changes();
      ASSIGN_OR_RETURN(taken, take_study(tx, seat_, id, seat_.now_ms() + options_.owner_ttl_ms,
                                         changes.get()));
      Query query = tx.query("SELECT client, owner_epoch, fruitless FROM studies "
                             "WHERE id = ?", id);
      if (query.next()) {
        row.client = query.text(0);
        row.owner_epoch = query.integer(1);
        row.fruitless = query.integer(2);
      }
      return query.status();
    }));
    seat_.changed(*changes);
    again |= taken != Taken::kTaken;       // its seat is free for the next
    if (taken == Taken::kUnfit) RETURN_IF_ERROR(queue_.is_unfit(id));
    if (taken == Taken::kTaken) {
      RETURN_IF_ERROR(sit_down(id, row.client, row.owner_epoch, row.fruitless));
    }
  }
  std::lock_guard lock(mutex_);
  look_ |= again;
  return absl::OkStatus();
}

absl::Status Searcher::sit_down(const std::string& id, const std::string& client, int64_t epoch,
                                int64_t fruitless) {
  log(Level::kInfo, "study_adopted", {{"study", id}, {"owner_epoch", epoch}});
  const auto owned = std::make_shared<Owned>(*this, id, client, epoch, fruitless > 0);
  std::lock_guard lock(mutex_);
  owned_[id] = owned;
  ++running_;
  owned->thread = std::thread([this, owned] { drive(owned); });
  return absl::OkStatus();
}

absl::Status Searcher::renew() {
  if (owned() == 0 || !seat_.database->is_shared()) return absl::OkStatus();
  return seat_.commit([this](WriteTransaction& tx) {
    return tx.query("UPDATE studies SET owner_until = ? WHERE owner = ? "
                    "AND state IN ('queued', 'running')",
                    seat_.now_ms() + options_.owner_ttl_ms, seat_.owner).run();
  });
}

void Searcher::adopt() {
  int64_t renewed = seat_.now_ms();
  std::string problem;                     // that was logged last
  while (true) {
    auto task = std::make_unique<Liveness::Task>(*seat_.liveness, "the look for studies",
                                                 Liveness::Clock::now() + kLooksEvery);
    {
      std::lock_guard lock(mutex_);
      look_ = false;                       // what comes from here on is looked at again
    }
    absl::Status status = adopt_once();
    if (status.ok()) status = note_long_steps();
    if (status.ok() && seat_.now_ms() - renewed > options_.owner_ttl_ms / 4) {
      renewed = seat_.now_ms();
      status = renew();
    }
    if (!status.ok() && problem != status.message()) {
      log(Level::kWarning, "studies_not_adopted", {{"error", std::string(status.message())}});
    }
    problem = std::string(status.message());
    join_ended();
    task.reset();
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(options_.adopt_ms),
                      [this] { return stop_ || look_; });
    if (stop_) return;
    // Whatever was missed (another daemon took a result, a device came): look at all now and then.
    for (const auto& [id, owned] : owned_) owned->dirty = true;
    changed_.notify_all();
  }
}

// A study's thread.
void Searcher::drive(const std::shared_ptr<Owned>& owned) {
  bool over = false;
  while (!over) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || owned->dirty; });
      if (stop_) break;
      owned->dirty = false;
    }
    over = advance(*owned);
  }
  std::lock_guard lock(mutex_);
  const auto held = owned_.find(owned->id);  // perhaps adopted anew meanwhile, under another epoch
  if (held != owned_.end() && held->second == owned) owned_.erase(held);
  ended_.push_back(std::move(owned->thread));
  --running_;
  look_ = true;                            // there is room for another
  changed_.notify_all();
}

// Whether it is over, for us.
bool Searcher::advance(Owned& owned) {
  const bool first = std::exchange(owned.first, false);
  std::unique_lock suspect(suspects_, std::defer_lock);
  if (first && owned.is_suspect) suspect.lock();
  turns_.enter(*owned.party);
  owned.task = std::make_unique<Liveness::Task>(*seat_.liveness, concat("the search of ", owned.id),
                                                Liveness::Clock::now() + kLooksEvery);
  absl::StatusOr<StudySearch::Next> next = owned.search.advance();
  if (first && owned.stop.asked() && owned.used_us < kLongStep_us) {
    std::lock_guard lock(mutex_);
    if (stop_) spared_.emplace_back(owned.id, owned.epoch);  // we end in order, early in the step
  }
  owned.used_us = 0;
  owned.noted = false;
  if (!owned.hopeless.empty()) next = owned.search.fail(owned.hopeless);
  const bool stopped = owned.stop.asked();
  owned.task.reset();
  turns_.leave(*owned.party);
  if (stopped) return true;
  if (next.ok()) {
    owned.problem.clear();
    return *next == StudySearch::Next::kEnded;
  }
  // Cancelled, or another daemon's by now: in order.
  if (absl::IsAborted(next.status())) {
    log(Level::kInfo, "study_left", {{"study", owned.id}});
    return true;
  }
  // While the database takes no writes, every second.
  if (owned.problem != next.status().message()) {
    owned.problem = std::string(next.status().message());
    log(Level::kWarning, "study_not_advanced", {{"study", owned.id}, {"error", owned.problem}});
  }
  return false;
}

// Called from within advance(), every few milliseconds: lets others compute, and ends what would
// never end.
bool Searcher::look_up_from(Owned& owned) {
  owned.task->lives_until(Liveness::Clock::time_point::max());
  owned.used_us = turns_.pause(*owned.party);
  owned.task->lives_until(Liveness::Clock::now() + kLooksEvery);
  if (1e-6 * static_cast<double>(owned.used_us) <= options_.step_limit_s) return false;
  owned.hopeless = concat("one step of the search took more than ",
                          static_cast<int64_t>(options_.step_limit_s),
                          " s of computing: the program is too large to be searched for");
  return true;
}

// Steps that take long are counted while they run, and no more once one has ended (StudySearch): what
// is left over tells of daemons that did not live to see that.
absl::Status Searcher::note_long_steps() {
  std::vector<std::pair<std::string, int64_t>> slow;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, owned] : owned_) {
      if (owned->search.is_first() || owned->used_us < kLongStep_us || owned->noted.exchange(true)) continue;
      slow.emplace_back(id, owned->epoch);
    }
  }
  for (const auto& [id, epoch] : slow) {
    RETURN_IF_ERROR(seat_.commit([&](WriteTransaction& tx) {
      return tx.query("UPDATE studies SET fruitless = fruitless + 1 WHERE id = ? AND "
                      "owner = ? AND owner_epoch = ?", id, seat_.owner, epoch).run();
    }));
  }
  return absl::OkStatus();
}

void Searcher::join_ended() {
  std::vector<std::thread> ended;
  {
    std::lock_guard lock(mutex_);
    ended.swap(ended_);
  }
  for (std::thread& thread : ended) thread.join();
}

}  // namespace lw
