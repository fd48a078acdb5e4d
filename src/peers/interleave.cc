#include "src/peers/interleave.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "src/base/check.h"
#include "src/base/clock.h"

namespace lw {
namespace {

double seconds_of(const Contender& contender, int64_t calls) {
  if (contender.seconds) return contender.seconds(calls);
  const double begin = now();
  for (int64_t i = 0; i < calls; ++i) contender.run();
  if (contender.finish) contender.finish();
  return now() - begin;
}

// Calls that make a sample long enough, found by doubling.
int64_t calls_for(const Contender& contender, double sample_s) {
  int64_t calls = 1;
  for (;;) {
    const double s = seconds_of(contender, calls);
    if (s >= sample_s / 2) return std::max<int64_t>(1, std::llround(calls * sample_s / s));
    calls *= 2;
  }
}

void settle(double seconds) {
  if (seconds > 0) std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

}  // namespace

std::vector<Series> interleave(const std::vector<Contender>& contenders,
                               const InterleaveOptions& options) {
  const double sample_s = std::max(options.min_sample_s, 100 * timer_resolution());
  std::vector<Series> series(contenders.size());
  std::vector<int64_t> warm(contenders.size());
  double round_s = 0;
  for (size_t i = 0; i < contenders.size(); ++i) {
    settle(options.settle_s);
    if (contenders[i].select) contenders[i].select();
    seconds_of(contenders[i], 1);
    series[i].inner = calls_for(contenders[i], sample_s);
    const double begin = now();
    seconds_of(contenders[i], series[i].inner);
    const double sampled_s = now() - begin;
    const double call_s = sampled_s / static_cast<double>(series[i].inner);
    warm[i] = std::max<int64_t>(1, std::llround(options.warm_s / call_s));
    round_s += sampled_s + static_cast<double>(warm[i]) * call_s + options.settle_s;
  }
  const double affordable = options.budget_s / std::max(round_s, 1e-9);
  const double most = std::max(3, options.rounds);
  const int rounds = static_cast<int>(std::clamp(affordable, 3.0, most));
  for (int round = 0; round < rounds; ++round) {
    if (options.beside) options.beside();
    for (size_t i = 0; i < contenders.size(); ++i) {
      settle(options.settle_s);
      if (contenders[i].select) contenders[i].select();
      seconds_of(contenders[i], warm[i]);
      const double s = seconds_of(contenders[i], series[i].inner);
      series[i].samples_us.push_back(1e6 * s / static_cast<double>(series[i].inner));
    }
  }
  for (Series& s : series) s.time_us = estimate(s.samples_us);
  return series;
}

Estimate paired_ratio(const std::vector<double>& a, const std::vector<double>& b) {
  CHECK(a.size() == b.size());
  std::vector<double> ratios;
  for (size_t i = 0; i < a.size(); ++i) ratios.push_back(a[i] / b[i]);
  return estimate(std::move(ratios));
}

}  // namespace lw
