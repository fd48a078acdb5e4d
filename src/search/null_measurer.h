// A Measurer that runs nothing: the time of a kernel is a simple function of its statements. What
// the search's tests and dry runs use: same candidates, same seed, same outcomes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "src/search/measurer.h"

namespace lw {

struct Kernel;

struct NullOptions {
  uint64_t seed = 1;
  double jitter = 0.01;  // relative, of each sample, from the kernel's hash and seed
  int threads = 1;
  TimeKind time_kind = TimeKind::kMeasured;  // as whose times its own are given out
  // Probability of each failure for a kernel; the same kernel always fares the same. The verdicts
  // that are nobody's fault strike a kernel's first submission only.
  std::map<Verdict, double> failures;
};

// Outcomes come in order of submission.
std::unique_ptr<Measurer> make_null_measurer(const NullOptions& options);

// The time behind it, in microseconds: statements times their trip counts, vector operations as
// cheap as scalar ones, memory accesses dearer the farther apart their lanes lie.
double null_time_us(const Kernel& kernel, int threads);

}  // namespace lw
