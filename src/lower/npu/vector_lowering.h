// Stages that an NPU's vector engine computes (schedules/npu/vector.h), as blocks: for each box its
// operands' copies, its operations, the copy of its results. Internal to src/lower/npu.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "src/kernel/kernel.h"
#include "src/lower/lower.h"

namespace lw::lowering {

// Adds the stage's statements and buffers to the kernel. `buffers`: of tensors. `spm`, `acc`: bytes
// in use, to which it adds its own. kFailedPrecondition ("infeasible: ..."): what the engine does
// not compute, or a stage without boxes.
absl::Status lower_vector(const Nest& nest, int stage, const std::vector<int>& buffers,
                          const LowerOptions& options, Kernel& kernel, int64_t* spm, int64_t* acc);

}  // namespace lw::lowering
