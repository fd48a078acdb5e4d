// Stages that an NPU's array computes (schedules/npu/product.h), as blocks: tiles of operands
// copied into SPM, products into ACC, results copied out. Internal to src/lower/npu.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "schedules/nest.h"
#include "src/kernel/kernel.h"
#include "src/lower/lower.h"

namespace lw::lowering {

// Adds the stage's statements and buffers to the kernel. `buffers`: of tensors. `spm`, `acc`: bytes
// in use, to which it adds its own. kFailedPrecondition ("infeasible: ..."): what the array does
// not compute, or a stage without tiles.
absl::Status lower_product(const Nest& nest, int stage, const std::vector<int>& buffers,
                           const LowerOptions& options, Kernel& kernel, int64_t* spm,
                           int64_t* acc);

}  // namespace lw::lowering
