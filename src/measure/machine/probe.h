// Small kernels that measure the machine instead of a workload: the doctor's instruments.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "schedules/targets/target.h"

namespace lw {

// A serial kernel, as text, and its arguments' sizes; each thread gets its own arguments, all bytes
// 0 but for those that start with the `inputs` values.
struct Probe {
  std::string kernel;
  std::vector<int64_t> argument_bytes;
  bool ones = false;  // fill the first argument with 1.0 of `f64 ? double : float`
  bool f64 = false;
};

// Largest rate seen of `work` units a call on each of `threads` threads, summed, within about
// `budget_s` (at least two samples). Builds once per kernel text and target; thread-safe.
absl::StatusOr<double> best_rate(const Probe& probe, const Target& target, int threads, double work,
                                 double budget_s);

}  // namespace lw
