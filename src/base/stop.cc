#include "src/base/stop.h"

#include <utility>

#include "src/base/check.h"

namespace lw {
namespace {

enum Reason : int { kNone, kWish, kTime };

constexpr std::chrono::nanoseconds kLookEvery = std::chrono::milliseconds(1);

}  // namespace

struct Stop::State {
  std::function<bool()> wanted;
  Clock::time_point deadline = Clock::time_point::max();
  Stop outer;
  std::atomic<int> reason{kNone};
  std::atomic<Clock::rep> next_look{Clock::time_point::min().time_since_epoch().count()};

  // The first reason stays.
  bool ask(Reason why) {
    int none = kNone;
    reason.compare_exchange_strong(none, why);
    return true;
  }
};

Stop::Stop(std::function<bool()> wanted, Clock::time_point deadline)
    : state_(std::make_shared<State>()) {
  state_->wanted = std::move(wanted);
  state_->deadline = deadline;
}

Stop Stop::before(Clock::time_point deadline) const {
  Stop inner(nullptr, deadline);
  inner.state_->outer = *this;
  return inner;
}

bool Stop::asked() const {
  if (state_ == nullptr) return false;
  State& s = *state_;
  if (s.reason.load(std::memory_order_acquire) != kNone) return true;
  if (s.outer.asked()) return s.ask(s.outer.state_->reason == kTime ? kTime : kWish);
  if (s.deadline == Clock::time_point::max() && !s.wanted) return false;
  const Clock::time_point now = Clock::now();
  if (now >= s.deadline) return s.ask(kTime);
  if (!s.wanted) return false;
  Clock::rep next = s.next_look.load(std::memory_order_relaxed);
  const Clock::rep at = now.time_since_epoch().count();
  const Clock::rep pause = std::chrono::duration_cast<Clock::duration>(kLookEvery).count();
  if (at < next || !s.next_look.compare_exchange_strong(next, at + pause)) return false;
  return s.wanted() && s.ask(kWish);
}

void Stop::request() const {
  CHECK(state_ != nullptr);
  state_->ask(kWish);
}

absl::Status Stop::status(std::string_view what) const {
  if (!asked()) return absl::OkStatus();
  const bool time = state_->reason == kTime;
  const std::string text = std::string(what) + " was stopped" + (time ? ": its time is over" : "");
  return time ? absl::DeadlineExceededError(text) : absl::CancelledError(text);
}

Stop::Clock::time_point after_seconds(double seconds) {
  constexpr double kCentury = 3.2e9;
  if (!(seconds < kCentury)) return Stop::Clock::time_point::max();
  return Stop::Clock::now() + std::chrono::duration_cast<Stop::Clock::duration>(
                                  std::chrono::duration<double>(seconds));
}

}  // namespace lw
