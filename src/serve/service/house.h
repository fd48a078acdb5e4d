// What nobody calls for, on a thread of its own. Every tenth of a second it resumes parked calls
// whose time is over (at once those that look again at a time of their own); every half a second it
// ends leases that ran out, reads what the queue holds (another daemon may have filled it) and who
// uses how much; every few seconds it counts what there is for the metrics; and piece by piece it
// forgets what is over. Thread-safe.
#pragma once

#include <atomic>
#include <thread>

#include "src/serve/service/agents.h"
#include "src/serve/service/forget.h"

namespace lw {

class House {
 public:
  // Both outlive it.
  House(Core& core, Agents& agents) : core_(core), agents_(agents), forgetter_(core) {}
  // Fails when the queue cannot be read.
  absl::Status start();
  void join();                             // REQUIRES: the core's bell has ended
  void finish();                           // stores what only memory has, for the next start
  // Something is to be forgotten now.
  void forget_soon() { forgetter_.soon(); }
  // Counts anew what the gauges show; at most once a second, so that scraping costs little.
  void before_metrics();

 private:
  void keep();
  absl::Status sweep();
  absl::Status refresh();
  absl::Status keep_time();
  absl::Status measure_fleet();

  Core& core_;
  Agents& agents_;
  Forgetter forgetter_;
  std::atomic<int64_t> measured_ms_ = 0;   // when before_metrics() last counted
  std::thread thread_;
};

}  // namespace lw
