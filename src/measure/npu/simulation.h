// A program of the simulated NPU, watched: for drawings and figures of a kernel that is chosen. Pure.
#pragma once

#include "absl/status/statusor.h"
#include "src/build/build.h"
#include "src/measure/run/simulation.h"

namespace lw {

// The engines are the machine's, and the dispatcher. Errors as simulated_us's.
absl::StatusOr<Simulation> simulate_npu(const Artifact& artifact);

}  // namespace lw
