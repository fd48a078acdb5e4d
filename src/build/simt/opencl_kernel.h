// A kernel as a program of OpenCL C 1.2. Internal to src/build/simt. Pure; thread-safe.
#pragma once

#include "absl/status/statusor.h"
#include "src/build/simt/program.h"
#include "src/kernel/kernel.h"

namespace lw {

struct Target;

// Each parallel loop at the top is a launch, an iteration of it a group; what stands between two is
// a launch of one item. kInvalidArgument: what OpenCL C has no words for, or the target not.
absl::StatusOr<SimtProgram> opencl_program(const Kernel& kernel, const Target& target);

}  // namespace lw
