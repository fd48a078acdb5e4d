#include "src/serve/searcher.h"

#include <algorithm>
#include <chrono>

#include "src/base/check.h"
#include "src/base/log.h"

namespace lw {

struct Searcher::Owned {
  Owned(const SearchSeat& seat, const std::string& id, int64_t e) : epoch(e), search(seat, id, e) {}
  const int64_t epoch;
  StudySearch search;
  bool busy = false;                       // a thread is advancing it
};

Searcher::Searcher(SearchSeat seat, SearcherOptions options)
    : seat_(std::move(seat)), options_(options) {}

void Searcher::start() {
  threads_.emplace_back([this] { adopt(); });
  for (int i = 0; i < std::max(1, options_.threads); ++i) threads_.emplace_back([this] { work(); });
}

Searcher::~Searcher() { stop(); }

void Searcher::stop() {
  if (threads_.empty()) return;
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
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
    if (owned_.contains(study)) {
      dirty_.insert(study);
    } else {
      look_ = true;
    }
  }
  changed_.notify_all();
}

void Searcher::wake_all() {
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, owned] : owned_) dirty_.insert(id);
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
    room = options_.most_studies - static_cast<int>(owned_.size());
  }
  if (room <= 0) return absl::OkStatus();
  const bool alone = !seat_.database->is_shared();
  const int64_t now = seat_.now_ms();
  // Whether there is anything, without a write.
  std::vector<StudyRow> rows;
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
    for (const StudyRow& row : ours) {
      if (!owned_.contains(row.id)) rows.push_back(row);
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
    std::lock_guard lock(mutex_);
    owned_[row.id] = std::make_shared<Owned>(seat_, row.id, epoch);
    dirty_.insert(row.id);
    changed_.notify_all();
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
    if (status.ok() && seat_.now_ms() - renewed > options_.owner_ttl_ms / 4) {
      renewed = seat_.now_ms();
      status = renew();
    }
    if (!status.ok()) {
      log(Level::kWarning, "studies_not_adopted", {{"error", std::string(status.message())}});
    }
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(options_.adopt_ms),
                      [this] { return stop_ || look_; });
    if (stop_) return;
    // Whatever was missed (another daemon took a result, a device came): look at all now and then.
    for (const auto& [id, owned] : owned_) dirty_.insert(id);
    changed_.notify_all();
  }
}

void Searcher::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    std::shared_ptr<Owned> owned;
    std::string id;
    changed_.wait(lock, [&] {
      if (stop_) return true;
      for (const std::string& candidate : dirty_) {
        const auto found = owned_.find(candidate);
        if (found == owned_.end() || found->second->busy) continue;
        id = candidate;
        owned = found->second;
        return true;
      }
      return false;
    });
    if (stop_) return;
    dirty_.erase(id);
    owned->busy = true;
    lock.unlock();
    const absl::StatusOr<StudySearch::Next> next = owned->search.advance();
    if (!next.ok()) {
      log(Level::kWarning, "study_not_advanced",
          {{"study", id}, {"error", std::string(next.status().message())}});
    }
    lock.lock();
    owned->busy = false;
    const bool over = next.ok() ? *next == StudySearch::Next::kEnded
                                : next.status().code() == absl::StatusCode::kAborted;
    const auto held = owned_.find(id);     // perhaps adopted anew meanwhile, under another epoch
    if (over && held != owned_.end() && held->second == owned) {
      owned_.erase(held);
      dirty_.erase(id);
      look_ = true;                        // there is room for another
    }
    changed_.notify_all();
  }
}

}  // namespace lw
