// How long does this call take? Problem: a kernel runs for 200 ns to 2 s, the clock has its own
// step, the machine its noise, and most candidates are not worth knowing exactly.
// (What lw_runner too is made of: on the standard library alone.)
//
// A sample is the mean over so many calls that the clock's step is below 1 % of it. Samples are
// taken in stages (1, 3, max_samples), after a millisecond of calls that do not count; between
// stages a candidate that is certainly behind the incumbent leaves: a slow candidate costs two
// calls, a good one about 10 samples (5 ms at 0.3 ms a sample). The centre is the median and its
// interval comes from order statistics: both ignore the sample during which another process had
// the core.
#include "src/measure/run/timing.h"

#include <algorithm>
#include <cmath>

#include "src/base/clock.h"

namespace lw {
namespace {

constexpr double kHopeless = 1.5;  // first sample: this far behind, no noise explains it
constexpr double kBehind = 1.1;    // three samples: every one of them behind by this much
// The discarded call suffers from cold caches and page faults; only far beyond is it conclusive.
constexpr double kHopelessCold = 5;
constexpr double kLongCall = 10;  // budgets: beside a call this long, its first misses are nothing
constexpr int kStages[] = {1, 3};
// Discarded: the processor wakes up (its clock, the upper halves of its vector units), pages and
// caches fill. Without it first samples of 0.3 ms were up to seven times too long, and raced out.
constexpr double kWarmUpSeconds = 1e-3, kWarmCalls = 1000;

// Whether the samples so far rule out that the candidate beats the incumbent.
bool certainly_behind(const std::vector<double>& samples, double incumbent_us) {
  if (incumbent_us <= 0 || samples.empty()) return false;
  const double fastest = *std::min_element(samples.begin(), samples.end());
  return fastest > incumbent_us * (samples.size() < 3 ? kHopeless : kBehind);
}

}  // namespace

double timer_resolution() {
  static const double resolution = [] {
    double smallest = 1;
    for (int i = 0; i < 1000; ++i) {
      const double begin = now();
      double end = begin;
      while (end <= begin) end = now();
      smallest = std::min(smallest, end - begin);
    }
    return smallest;
  }();
  return resolution;
}

double take_sample(const Timed& timed, int64_t inner, bool cold) {
  if (timed.sample != nullptr) {
    if (cold) timed.before();
    return timed.sample(cold ? 1 : inner);
  }
  if (!cold) {
    const double begin = now();
    for (int64_t i = 0; i < inner; ++i) {
      if (!timed.call()) return -1;
    }
    return (now() - begin) * 1e6 / static_cast<double>(inner);
  }
  timed.before();
  const double begin = now();
  if (!timed.call()) return -1;
  return (now() - begin) * 1e6;
}

int64_t inner_repeats(double call_s, const TimingPlan& plan) {
  if (plan.cold) return 1;
  const double wanted = std::max(plan.min_sample_s, 100 * timer_resolution());
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(wanted / std::max(call_s, 1e-9))));
}

Timing time_call(const Timed& timed, const TimingPlan& plan) {
  Timing t;
  const double first_us = take_sample(timed, 1, plan.cold);
  if (first_us < 0) return t.ok = false, t;
  const bool hopeless = plan.incumbent_us > 0 && first_us > kHopelessCold * plan.incumbent_us &&
                        first_us > plan.budget_s * 1e6;
  if (hopeless || first_us > kLongCall * plan.budget_s * 1e6) {
    // A second call would only say the same again, at the same price.
    t.samples_us = {first_us};
    t.raced_out = hopeless;
    return t;
  }
  // Sized by calls that find everything as the samples will.
  double call_s = first_us * 1e-6, warm_s = call_s;
  while (!plan.cold && warm_s < kWarmUpSeconds) {
    const double left = std::ceil((kWarmUpSeconds - warm_s) / std::max(call_s, 1e-9));
    const int64_t calls = static_cast<int64_t>(std::clamp(left, 1.0, kWarmCalls));
    const double us = take_sample(timed, calls, false);
    if (us < 0) return t.ok = false, t;
    call_s = us * 1e-6;
    warm_s += static_cast<double>(calls) * std::max(call_s, 1e-9);
  }
  t.inner = inner_repeats(call_s, plan);
  double spent_s = 0;
  const auto sample_to = [&](int count) {
    while (static_cast<int>(t.samples_us.size()) < count) {
      if (!t.samples_us.empty() && spent_s >= plan.budget_s) return;
      const double us = take_sample(timed, t.inner, plan.cold);
      if (us < 0) {
        t.ok = false;
        return;
      }
      t.samples_us.push_back(us);
      spent_s += us * 1e-6 * static_cast<double>(t.inner);
    }
  };
  for (int stage : kStages) {
    sample_to(std::min(stage, plan.max_samples));
    if (!t.ok) return t;
    if (certainly_behind(t.samples_us, plan.incumbent_us)) {
      t.raced_out = true;
      return t;
    }
  }
  sample_to(plan.max_samples);
  return t;
}

std::vector<Timing> time_in_turns(const std::vector<Timed>& calls, int rounds,
                                  const TimingPlan& plan, const std::function<void(size_t)>& turn) {
  std::vector<Timing> all(calls.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    turn(i);
    const double warm_us = take_sample(calls[i], 1, plan.cold);
    const double again_us = take_sample(calls[i], 1, plan.cold);
    if (warm_us < 0 || again_us < 0) return all[i].ok = false, all;
    all[i].inner = inner_repeats(again_us * 1e-6, plan);
  }
  for (int r = 0; r < rounds; ++r) {
    for (size_t k = 0; k < calls.size(); ++k) {
      // Every other round backwards: nobody always runs behind the same neighbour.
      const size_t i = r % 2 == 0 ? k : calls.size() - 1 - k;
      turn(i);
      // The neighbour's data leave the caches untimed.
      if (!plan.cold) take_sample(calls[i], 1, false);
      all[i].samples_us.push_back(take_sample(calls[i], all[i].inner, plan.cold));
    }
  }
  return all;
}

}  // namespace lw
