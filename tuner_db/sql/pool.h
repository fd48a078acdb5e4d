// A bounded set of connections that threads borrow. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace lw {

template <class C>
class ConnectionPool {
 public:
  explicit ConnectionPool(int limit) : limit_(limit) {}

  // The most recently used idle one, else a new one by `make`; waits `patience_s` when `limit` and
  // `reserved` are borrowed, then returns nullptr. `reserved`: how many are kept for such callers.
  absl::StatusOr<std::unique_ptr<C>> take(
      double patience_s, int reserved,
      absl::FunctionRef<absl::StatusOr<std::unique_ptr<C>>()> make) {
    std::unique_lock lock(mutex_);
    const bool there = returned_.wait_for(lock, std::chrono::duration<double>(patience_s),
                                          [&] { return borrowed_ < limit_ + reserved; });
    if (!there) return nullptr;
    ++borrowed_;
    if (!idle_.empty()) {
      std::unique_ptr<C> connection = std::move(idle_.back());
      idle_.pop_back();
      return connection;
    }
    lock.unlock();
    absl::StatusOr<std::unique_ptr<C>> made = make();
    if (!made.ok()) give(nullptr);
    return made;
  }

  // nullptr for one that is no longer usable.
  void give(std::unique_ptr<C> connection) {
    {
      const std::lock_guard guard(mutex_);
      --borrowed_;
      if (connection != nullptr) idle_.push_back(std::move(connection));
    }
    returned_.notify_all();                // of two kinds, not each of which may have it
  }

  // One that was made elsewhere.
  void adopt(std::unique_ptr<C> connection) {
    const std::lock_guard guard(mutex_);
    idle_.push_back(std::move(connection));
  }

  // The idle ones (all, when nothing is borrowed).
  std::vector<std::unique_ptr<C>> drain() {
    const std::lock_guard guard(mutex_);
    return std::exchange(idle_, {});
  }

 private:
  const int limit_;
  std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<std::unique_ptr<C>> idle_;
  int borrowed_ = 0;
};

}  // namespace lw
