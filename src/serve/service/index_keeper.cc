#include "src/serve/service/index_keeper.h"

#include <algorithm>

#include "src/base/log.h"

namespace lw {
namespace {

constexpr std::chrono::milliseconds kTick{100};
constexpr int64_t kFollowMs = 300;         // what other processes changed is looked for
constexpr int64_t kWithdrawnMs = 1000;
constexpr int kPause = 9;                  // times what reading a key took
constexpr size_t kResidentBytes = size_t{48} << 20;  // of records in the index

}  // namespace

IndexKeeper::IndexKeeper(Core& core)
    : core_(core), index_(*core.store, LadderIndexOptions{kResidentBytes}) {}

void IndexKeeper::start() {
  thread_ = std::thread([this] { keep(); });
}

void IndexKeeper::join() {
  if (thread_.joinable()) thread_.join();
}

void IndexKeeper::note(const Key& key) {
  std::lock_guard lock(mutex_);
  news_.push_back(key);
}

void IndexKeeper::update(const Key& key) {
  if (!index_.update(key).ok()) note(key);
}

void IndexKeeper::keep() {
  Database::keep_connection_for_this_thread();
  bool is_read = false;
  int64_t followed = 0, looked = 0;
  while (true) {
    absl::Status status;
    if (!is_read) {
      status = index_.refresh();
      is_read = status.ok();
    }
    // Not only by this process: another daemon, `tune --db` or `db import` write there too.
    if (is_read && core_.now_ms() - followed >= kFollowMs) {
      const absl::StatusOr<std::vector<Key>> changed = index_.follow();
      status.Update(changed.status());
      if (changed.ok()) {
        for (const Key& key : *changed) note(key);
      }
      followed = core_.now_ms();
    }
    if (core_.now_ms() - looked >= kWithdrawnMs) {
      status.Update(index_.refresh_withdrawn());
      looked = core_.now_ms();
    }
    std::vector<Key> news;
    {
      std::lock_guard lock(mutex_);
      news.swap(news_);
    }
    // A busy key comes hundreds of times a second.
    std::sort(news.begin(), news.end());
    news.erase(std::unique(news.begin(), news.end()), news.end());
    for (const Key& key : news) {
      const auto begun = Bell::Clock::now();
      const absl::Status updated = index_.update(key);
      if (!updated.ok()) note(key);        // the next round tries again
      status.Update(updated);
      // The best of a key with many candidates is read in milliseconds, which commits wait for.
      if (!core_.bell.sleep_for(kPause * (Bell::Clock::now() - begun))) return;
    }
    if (!status.ok()) {
      log(Level::kWarning, "index_not_updated", {{"error", std::string(status.message())}});
    }
    if (!core_.bell.sleep_for(kTick)) return;
  }
}

}  // namespace lw
