// Copies of boxes by the engine that is beside a multiprocessor's threads (PTX ISA, 9.7.9.27). Pure;
// thread-safe. Internal to src/build/simt/ptx.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "src/build/simt/program.h"
#include "src/kernel/kernel.h"

namespace lw {

// What describes to the engine the tensor and the box of a kBoxCopy. kInvalidArgument: it has no such
// copies.
absl::StatusOr<SimtProgram::TensorMap> tensor_map_of(const Kernel& kernel, const Block& box);

// Of all that one copy brings.
int64_t box_bytes(const SimtProgram::TensorMap& map);

}  // namespace lw
