// When to leave work before it is done: a time, somebody's wish, or both.
//
// Passed down as a value to whatever may take long, which looks at it at least every 100 ms. Who
// sees it asked returns soon, with whatever value is at hand: what comes out of work that was
// stopped means nothing, and whoever handed the Stop in looks at it before using that. Once asked
// it stays so.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string_view>

#include "absl/status/status.h"

namespace lw {

// Thread-safe; copies are one and the same. A look costs some 30 ns.
class Stop {
 public:
  using Clock = std::chrono::steady_clock;

  Stop() = default;                        // never asks
  // Asks from `deadline` on, after request(), and once `wanted` (if there is one) has said so:
  // that is called by who looks, at most every millisecond, and may take its time (to let others
  // work meanwhile).
  explicit Stop(std::function<bool()> wanted, Clock::time_point deadline = Clock::time_point::max());
  // Asks after request() only.
  static Stop on_request() { return Stop(nullptr); }
  // Asks when this one does, and from `deadline` on.
  Stop before(Clock::time_point deadline) const;

  bool operator==(const Stop&) const = default;

  bool asked() const;
  // REQUIRES: not of one that never asks.
  void request() const;
  // kDeadlineExceeded or kCancelled, once asked: "WHAT was stopped: its time is over".
  absl::Status status(std::string_view what) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// `seconds` from now, as a deadline; far away for what is more than a century.
Stop::Clock::time_point after_seconds(double seconds);

}  // namespace lw
