// Time inside the simulator: whole sixteenths of a core cycle, so that results are the same on
// every machine. Pure functions.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace lw::npu {

using Ticks = int64_t;
inline constexpr Ticks kTicks = 16;                                      // a cycle
inline constexpr Ticks kNever = std::numeric_limits<Ticks>::max() / 4;

inline Ticks from_cycles(int64_t cycles) { return cycles * kTicks; }
inline Ticks from_cycles(double cycles) { return std::llround(cycles * kTicks); }
inline double to_cycles(Ticks ticks) { return static_cast<double>(ticks) / kTicks; }
// Whole cycles, the last one begun.
inline int64_t cycles_until(Ticks ticks) { return (ticks + kTicks - 1) / kTicks; }

// `count` times a time that is no whole number of ticks: rounded once, not `count` times.
class Rate {
 public:
  Rate() = default;
  explicit Rate(double cycles) : scaled_(std::llround(cycles * kTicks * kScale)) {}
  Ticks times(int64_t count) const { return (count * scaled_ + kScale / 2) / kScale; }

 private:
  static constexpr int64_t kScale = 1 << 16;
  int64_t scaled_ = 0;
};

}  // namespace lw::npu
