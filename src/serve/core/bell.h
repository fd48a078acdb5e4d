// What the service's own threads sleep by: until something is due, something has changed, or the
// service ends. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace lw {

class Bell {
 public:
  using Clock = std::chrono::steady_clock;

  // Sleeps until the time that `due()` says, which is asked again at every ring. False: it is over.
  template <class Due>
  bool sleep(const Due& due) {
    std::unique_lock lock(mutex_);
    while (!is_over_) {
      const Clock::time_point until = due();
      if (until <= Clock::now()) return true;
      changed_.wait_until(lock, until);
    }
    return false;
  }
  bool sleep_for(Clock::duration pause) {
    return sleep([until = Clock::now() + pause] { return until; });
  }

  // Whoever sleeps asks again; what was changed before this is seen by that.
  void ring() {
    { const std::lock_guard lock(mutex_); }  // a sleeper that has asked before hears it
    changed_.notify_all();
  }
  void end() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
};

}  // namespace lw
