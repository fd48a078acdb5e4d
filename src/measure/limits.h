// What a program's time is judged by on this machine: see cli.md, "the bound".
#pragma once

#include "absl/status/statusor.h"
#include "schedules/target.h"
#include "src/expr/expr.h"

namespace lw {

struct Limits {
  double peak_gflops = 0;  // of the type that most of the work is done in, all threads together
  double bandwidth_gbytes = 0;  // GB/s at the program's footprint and mix of reads and writes
};
// Takes about twice `budget_s`. Clocks drift and neighbours come and go: measure beside what it
// judges. Thread-safe; the calling thread is moved to the processors that are measured and back.
absl::StatusOr<Limits> measure_limits(const Program& program, const Target& target, int threads,
                                      double budget_s = 0.05);

// The same from the target's data, for one that does not run here: its atoms' peak, and what the
// nearest memory that holds all arguments reads and writes together, for so many threads.
// REQUIRES: the target has caches.
Limits nominal_limits(const Program& program, const Target& target, int threads);

}  // namespace lw
