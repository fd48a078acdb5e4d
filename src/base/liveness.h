// Whether the threads that work for others still move: who is at what, and by when it should have
// ended or shown a sign of life. What is far beyond that hangs, and only a new process will help:
// /healthz says so.
#pragma once

#include <chrono>
#include <list>
#include <mutex>
#include <string>

namespace lw {

// Thread-safe.
class Liveness {
  struct Entry {
    std::string what;
    std::chrono::steady_clock::time_point due;
  };

 public:
  using Clock = std::chrono::steady_clock;
  // Beyond its time a task hangs after `patience` more.
  explicit Liveness(Clock::duration patience = std::chrono::seconds(60)) : patience_(patience) {}

  // A thread at work; ended by its destructor. Outlived by the Liveness.
  class Task {
   public:
    Task(Liveness& liveness, std::string what, Clock::time_point due);
    ~Task();
    Task(const Task&) = delete;
    Task& operator=(const Task&) = delete;
    // It lives, and will end or say so again by then.
    void lives_until(Clock::time_point due);

   private:
    Liveness& liveness_;
    std::list<Entry>::iterator entry_;
  };

  // How many hang now, and "" or "a thread hangs in /loopwright.v1.X/Y, 75 s beyond its time".
  int hanging(Clock::time_point now = Clock::now()) const;
  std::string problem(Clock::time_point now = Clock::now()) const;

 private:
  const Clock::duration patience_;
  mutable std::mutex mutex_;
  std::list<Entry> tasks_;
};

}  // namespace lw
