// Taking samples of a call's time, and what they say. Time enters through the functions given:
// everything but `timer_resolution` is deterministic for the same samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace lw {

// Smallest step of now()'s clock, in seconds, measured once. Thread-safe.
double timer_resolution();

// Median and its 95 % confidence interval by order statistics (no assumption about the
// distribution): for fewer than 6 samples the whole range. REQUIRES: samples not empty.
struct Estimate {
  double median = 0, low = 0, high = 0;
};
Estimate estimate(std::vector<double> samples);

// How long, and for whom, to sample.
struct TimingPlan {
  double incumbent_us = 0;  // 0: no racing
  int max_samples = 10;
  double budget_s = 0.015;     // of timed calls; one sample is always taken
  double min_sample_s = 3e-4;  // a sample repeats the call until it is this long
  bool cold = false;           // `before` runs before every call; one call a sample
};

struct Timing {
  bool ok = true;                  // false: a call failed, nothing else holds
  std::vector<double> samples_us;  // each the mean of `inner` calls
  int64_t inner = 1;
  bool raced_out = false;  // stopped early: hopelessly behind the incumbent
};

// The call to time; false: it failed. And what makes the caches cold before it.
struct Timed {
  std::function<bool()> call;
  std::function<void()> before;
  // In place of `call`, of who has a clock of its own or queues calls: so many of them, and the
  // microseconds that one took; negative: it failed.
  std::function<double(int64_t inner)> sample = nullptr;
};

// Racing: one call (kept as the only sample if it lasts 10 budgets) and what else fits into a
// millisecond are discarded; then 1 -> 3 -> max_samples samples, stopping when the candidate is
// certainly behind or the budget is spent.
Timing time_call(const Timed& timed, const TimingPlan& plan);

// Round by round, one sample of each: drifts of clock and load hit all alike. `turn(i)` comes before
// each of call i's. Result i for calls[i]; the first that is not ok ends it.
std::vector<Timing> time_in_turns(const std::vector<Timed>& calls, int rounds,
                                  const TimingPlan& plan, const std::function<void(size_t)>& turn);

// One sample in microseconds a call; negative: the call failed.
double take_sample(const Timed& timed, int64_t inner, bool cold);

// Calls a sample needs so that it lasts min_sample_s and at least 100 times the timer's resolution.
int64_t inner_repeats(double call_s, const TimingPlan& plan);

}  // namespace lw
