// Stages that an NPU's vector engine computes (schedules/npu/vector.h), as blocks: for each box its
// operands' copies, its operations, the copy of its results. Internal to src/lower/npu.
#pragma once

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "schedules/npu/product.h"
#include "src/kernel/kernel.h"
#include "src/lower/lower.h"
#include "src/lower/npu/block_writer.h"

namespace lw::lowering {

// Adds the stage's statements and buffers to the kernel. `buffers`: of tensors. `spm`, `acc`: bytes
// in use, to which it adds its own. kFailedPrecondition ("infeasible: ..."): what the engine does
// not compute, or a stage without boxes.
absl::Status lower_vector(const Nest& nest, int stage, const std::vector<int>& buffers,
                          const LowerOptions& options, Kernel& kernel, int64_t* spm, int64_t* acc);

// How a product's held results become those of its epilogue, a map, in DRAM: statements for a box
// of these ranges, the `turn`-th, whose results begin at `offset`.
using Finish = std::function<absl::Status(const BoxRanges& ranges, const Affine& turn,
                                          const Affine& offset, std::vector<Stmt>& out)>;
// `extents`: of what is held at once, in so many slots of a buffer, so laid out. As above; what it
// returns refers to its arguments.
absl::StatusOr<Finish> make_finish(const Nest& nest, int epilogue,
                                   const std::vector<int64_t>& extents, int64_t slots, int buffer,
                                   const BoxLayout& layout, const std::vector<int>& buffers,
                                   const LowerOptions& options, Kernel& kernel, int64_t* spm,
                                   int64_t* acc);

}  // namespace lw::lowering
