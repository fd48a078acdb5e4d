// From a nest to a kernel of blocks for an NPU (schedules/npu/product.h says of which stages):
// tiles of operands copied into SPM, products into ACC, results copied out. Every partial tile is
// an instance of the loops of its own, as on other machines; slots follow the numbers of
// iterations. What waits for what is not said here: the encoder finds it (src/build/npu/encode.h).
//
// Where a sum's last instruction is longer than the sum (NPUs multiply whole vectors), the rest of
// the weights' tile is filled with zeros; of floats that of the other operand too, since what lies
// there might be no number.
#pragma once

#include "absl/status/statusor.h"
#include "src/kernel/kernel.h"
#include "src/lower/lower.h"

namespace lw {

// As lower(). kFailedPrecondition ("infeasible: ..."): a stage that NPUs do not compute, or has no
// tile.
absl::StatusOr<Kernel> lower_npu(const Nest& nest, const LowerOptions& options);
// As count_statements(): those of the kernel, loops not unrolled.
absl::StatusOr<int64_t> count_statements_npu(const Nest& nest, const LowerOptions& options);

}  // namespace lw
