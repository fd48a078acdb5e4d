// What is known of a simulated NPU without measuring. Pure functions.
#pragma once

#include "absl/status/statusor.h"
#include "src/build/build.h"
#include "src/measure/machine/limits.h"

namespace lw {

// What no program is faster than: all multipliers at work in every cycle, and all that DRAM and its
// ports can move (npu::peak_bytes_per_cycle). REQUIRES: a target of the family.
Limits simulated_limits(const Target& target);

// The exact time of a call. kInvalidArgument: no module, or a program that its machine refuses;
// kDataLoss: one that does not end.
absl::StatusOr<double> simulated_us(const Artifact& artifact);

}  // namespace lw
