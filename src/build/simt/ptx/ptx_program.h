// Kernels as programs in PTX, with how they are launched. Internal to src/build. Pure; thread-safe.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "src/build/simt/program.h"
#include "src/kernel/kernel.h"

namespace lw {

struct Target;

// Without a cubin. kInvalidArgument: the kernel needs what the target lacks, or what PTX has no words
// for; the message says what.
absl::StatusOr<SimtProgram> ptx_program(const Kernel& kernel, const Target& target);

// The processor that the target's kernels are assembled for: "sm_90a". "": it names none.
std::string sm_of(const Target& target);

}  // namespace lw
