// Threads for calls that may wait for the database, so that gRPC's own never do. Whether they still
// move is told to a Liveness. Thread-safe.
#pragma once

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
  // `liveness` outlives it.
  Executor(int threads, Liveness& liveness) : liveness_(liveness) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  }
  ~Executor() { stop(); }

  // `due`: when it should have ended; without, a minute after it began.
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

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  Liveness& liveness_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace lw
