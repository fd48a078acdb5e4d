#include <algorithm>
#include <cmath>

#include "src/base/check.h"
#include "src/measure/run/timing.h"

namespace lw {

Estimate estimate(std::vector<double> samples) {
  CHECK(!samples.empty());
  std::sort(samples.begin(), samples.end());
  const int n = static_cast<int>(samples.size());
  Estimate e;
  e.median = n % 2 ? samples[n / 2] : 0.5 * (samples[n / 2 - 1] + samples[n / 2]);
  // The largest r with P(Binomial(n, 1/2) < r) <= 2.5 %: the r-th sample from either end bounds the
  // median with 95 %. None exists below 6 samples; then the range is all that can be said.
  double tail = std::pow(0.5, n), term = tail;
  int r = 0;
  while (r < n / 2 && tail <= 0.025) {
    ++r;
    term *= static_cast<double>(n - r + 1) / r;
    tail += term;
  }
  const int k = std::max(r - 1, 0);
  e.low = samples[k];
  e.high = samples[n - 1 - k];
  return e;
}

}  // namespace lw
