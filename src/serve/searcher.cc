#include "src/serve/searcher.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "src/base/check.h"
#include "src/base/log.h"
#include "src/expr/message.h"

namespace lw {

namespace {

constexpr std::chrono::seconds kLooksEvery(30);  // far more than a search takes between two looks
constexpr int64_t kLongStep_us = 1'000'000;   // of computing

}  // namespace

// A study and its thread.
struct Searcher::Owned {
  Owned(Searcher& searcher, const StudyRow& row, int64_t e)
      : id(row.id),
        epoch(e),
        party(searcher.turns_.join(row.client)),
        stop([this, &searcher] { return searcher.look_up_from(*this); }),
        search(searcher.seat_, row.id, e, stop) {}

  const std::string id;
  const int64_t epoch;
  const std::shared_ptr<Turns::Party> party;
  std::unique_ptr<Liveness::Task> task;    // while it is advanced
  std::string hopeless;                    // why it is to fail
  const Stop stop;
  StudySearch search;
  bool dirty = true;                       // is to be advanced
  std::atomic<int64_t> used_us = 0;        // computing, in this step so far
  std::atomic<bool> noted = false;         // that the step is long
  std::thread thread;
};

Searcher::Searcher(SearchSeat seat, SearcherOptions options)
    : seat_(std::move(seat)), options_(options), turns_(options.threads) {}

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
  const absl::Status given_back = seat_.commit([this](Database& database) {
    return database.query("UPDATE studies SET owner = '', owner_until = 0 WHERE owner = ? "
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

// Takes studies that nobody holds. Which were taken is read back, so that a transaction that is run
// again takes no more than it says.
absl::Status Searcher::adopt_once() {
  int room = 0;
  {
    std::lock_guard lock(mutex_);
    room = std::max(0, options_.most_studies - static_cast<int>(owned_.size()));
  }
  const bool alone = !seat_.database->is_shared();
  const int64_t now = seat_.now_ms();
  // Whether there is anything, without a write.
  std::vector<StudyRow> rows;
  std::set<std::string> still_ours;
  RETURN_IF_ERROR(seat_.database->read(5, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(rows, select_studies(*seat_.database,
                                          "WHERE state IN ('queued', 'running') AND owner <> ? AND "
                                          "(owner_until < ? OR ? = 1) "
                                          "ORDER BY priority DESC, id LIMIT ?",
                                          {std::string_view(seat_.owner), now, int64_t{alone},
                                           int64_t{room}}));
    // Ours by the database alone: dropped here after an error.
    ASSIGN_OR_RETURN(const std::vector<StudyRow> ours,
                     select_studies(*seat_.database,
                                    "WHERE state IN ('queued', 'running') AND owner = ?",
                                    {std::string_view(seat_.owner)}));
    std::lock_guard lock(mutex_);
    still_ours.clear();
    for (const StudyRow& row : ours) {
      still_ours.insert(row.id);
      if (!owned_.contains(row.id)) rows.push_back(row);
    }
    // What ended, or went to another daemon, while it was computed for.
    for (const auto& [id, owned] : owned_) {
      if (!still_ours.contains(id)) owned->stop.request();
    }
    return absl::OkStatus();
  }));
  for (const StudyRow& row : rows) {
    const int64_t epoch = row.owner_epoch + 1;
    int64_t taken = 0;
    RETURN_IF_ERROR(seat_.commit([&](Database& database) -> absl::Status {
      RETURN_IF_ERROR(database.query("UPDATE studies SET owner = ?, owner_epoch = ?, "
                                     "owner_until = ? WHERE id = ? AND owner_epoch = ?",
                                     seat_.owner, epoch, now + options_.owner_ttl_ms, row.id,
                                     row.owner_epoch).run());
      taken = database.changes();
      return absl::OkStatus();
    }));
    if (taken != 1) continue;
    log(Level::kInfo, "study_adopted", {{"study", row.id}, {"owner_epoch", epoch}});
    const auto owned = std::make_shared<Owned>(*this, row, epoch);
    std::lock_guard lock(mutex_);
    owned_[row.id] = owned;
    ++running_;
    owned->thread = std::thread([this, owned] { drive(owned); });
  }
  return absl::OkStatus();
}

absl::Status Searcher::renew() {
  if (owned() == 0 || !seat_.database->is_shared()) return absl::OkStatus();
  return seat_.commit([this](Database& database) {
    return database.query("UPDATE studies SET owner_until = ? WHERE owner = ? "
                          "AND state IN ('queued', 'running')",
                          seat_.now_ms() + options_.owner_ttl_ms, seat_.owner).run();
  });
}

void Searcher::adopt() {
  int64_t renewed = seat_.now_ms();
  while (true) {
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
    if (!status.ok()) {
      log(Level::kWarning, "studies_not_adopted", {{"error", std::string(status.message())}});
    }
    join_ended();
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
  turns_.enter(*owned.party);
  owned.task = std::make_unique<Liveness::Task>(*seat_.liveness, concat("the search of ", owned.id),
                                                Liveness::Clock::now() + kLooksEvery);
  absl::StatusOr<StudySearch::Next> next = owned.search.advance();
  owned.used_us = 0;
  owned.noted = false;
  if (!owned.hopeless.empty()) next = owned.search.fail(owned.hopeless);
  const bool stopped = owned.stop.asked();
  owned.task.reset();
  turns_.leave(*owned.party);
  if (stopped) return true;
  if (next.ok()) return *next == StudySearch::Next::kEnded;
  // Cancelled, or another daemon's by now: in order.
  if (absl::IsAborted(next.status())) {
    log(Level::kInfo, "study_left", {{"study", owned.id}});
    return true;
  }
  log(Level::kWarning, "study_not_advanced",
      {{"study", owned.id}, {"error", std::string(next.status().message())}});
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
      if (owned->used_us < kLongStep_us || owned->noted.exchange(true)) continue;
      slow.emplace_back(id, owned->epoch);
    }
  }
  for (const auto& [id, epoch] : slow) {
    RETURN_IF_ERROR(seat_.commit([&](Database& database) {
      return database.query("UPDATE studies SET fruitless = fruitless + 1 WHERE id = ? AND "
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
