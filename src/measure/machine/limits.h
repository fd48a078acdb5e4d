// The limits of a bound (loopwright/bounds.h): what a machine reaches, and what that means for a
// program.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "loopwright/bounds.h"
#include "src/expr/work/work.h"

namespace lw {

struct Atom;
struct Program;
struct Target;

// What the peak is the peak of: the multiply-adds that most of a program's work is done in.
struct PeakKind {
  Type type = Type::kF32;                  // f32, f64 or i32: the accumulators'
  const Atom* dot = nullptr;               // the target's instruction for several at once; as long
                                           // as the target lives
  std::string name() const;                // "f32", "u8 x i8 into i32"
};
PeakKind peak_kind(const Program& program, const Target& target);
// 1e9 operations a second, a multiply-add two. Otherwise as measure_limits.
absl::StatusOr<double> measure_peak(const PeakKind& kind, const Target& target, int threads,
                                    double budget_s = 0.05);

// Rates that a machine reaches at most, all threads together.
struct Limits {
  double peak_gflops = 0;  // multiply-adds, as two, of the type that most of the work is done in
  double bandwidth_gbytes = 0;  // GB/s of what the program must read and write, in that proportion,
                                // of the memory that holds as much
  // 1e9 elements a second, by the name of the mix (instructions.h). A mix that cannot set the bound
  // is not measured.
  std::map<std::string, double> instructions;
};
// Takes about twice `budget_s`, and half of it for each kind of instruction. Clocks drift and
// neighbours come and go: measure beside what it judges. `work` is the program's. Thread-safe; the
// calling thread is moved to the processors that are measured and back.
absl::StatusOr<Limits> measure_limits(const Program& program, const Work& work,
                                      const Target& target, int threads, double budget_s = 0.05);

// The same from the target's data, for one that does not run here: its atoms' peak, what the
// nearest memory that holds all arguments reads and writes together, the draft model's costs of
// operations, for so many threads. REQUIRES: the target has caches.
Limits nominal_limits(const Program& program, const Work& work, const Target& target, int threads);

// The larger of each rate.
Limits larger(const Limits& a, const Limits& b);

// compute: the multiply-adds over their peak. memory: the bytes over the bandwidth. instructions:
// the slowest of the mixes that `limits` names.
Bound find_bound(const Work& work, const Target& target, const Limits& limits);

}  // namespace lw
