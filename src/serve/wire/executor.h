// Threads for calls that may wait for the database, so that gRPC's own never do, and the calls that
// wait for one of them, of which there are not more than can be bounded. Whether the threads still
// move is told to a Liveness. Thread-safe.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/liveness.h"

namespace lw {

class Executor {
 public:
  // `most`: tasks that offer() lets wait. `liveness` outlives it. `nice`: how much its threads give way
  // to others of the process, as setpriority(2) has it.
  Executor(int threads, size_t most, Liveness& liveness, int nice = 0)
      : most_(most), liveness_(liveness), nice_(nice) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  }
  ~Executor() { stop(); }

  // `due`: when it should have ended; without, a minute after it began. False, and nothing of it
  // runs: as many wait as may.
  bool offer(std::function<void()> run, std::string what,
             std::optional<Liveness::Clock::time_point> due = std::nullopt) {
    std::lock_guard lock(mutex_);
    if (tasks_.size() >= most_) return false;
    tasks_.push_back({std::move(run), std::move(what), due});
    changed_.notify_one();
    return true;
  }
  // The same for what is bounded elsewhere and must go on, a stream's next step.
  void post(std::function<void()> run, std::string what,
            std::optional<Liveness::Clock::time_point> due = std::nullopt) {
    std::lock_guard lock(mutex_);
    tasks_.push_back({std::move(run), std::move(what), due});
    // Under the lock: the task may end what keeps us alive before we would have said so.
    changed_.notify_one();
  }

  // What was posted still runs. Idempotent; not from one of its threads.
  void stop() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }

 private:
  struct Task {
    std::function<void()> run;
    std::string what;
    std::optional<Liveness::Clock::time_point> due;
  };

  void work() {
    // Of the thread alone, on Linux.
    if (nice_ != 0) setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), nice_);
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stop_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      Task task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      {
        const Liveness::Task alive(
            liveness_, std::move(task.what),
            task.due.value_or(Liveness::Clock::now() + std::chrono::minutes(1)));
        task.run();
        task.run = nullptr;
      }
      lock.lock();
    }
  }

  const size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  Liveness& liveness_;
  const int nice_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace lw
