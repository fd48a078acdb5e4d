// Stages of which points are left out (NpuProduct::limits): phases of a transposed convolution have
// different numbers of points and of taps. Loops over phases are unrolled, and of each phase the
// points that there are make a box again. Internal to src/lower/npu.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "schedules/npu/product.h"
#include "schedules/npu/vector.h"
#include "src/lower/npu/block_writer.h"

namespace lw::lowering {

struct Phases {
  std::vector<bool> is_phase;              // of the stage's loops, and one behind them
  std::vector<size_t> cut;                 // of each limit: the axis that is cut once others stand
};
// kFailedPrecondition: loops over phases stand inside others that these cut, or inside the first
// `held` loops there are not all of them.
absl::StatusOr<Phases> find_phases(const Stage& stage,
                                   const std::vector<NpuProduct::Limit>& limits, int held);

// Leaves of the ranges the points that there are, as far as phases are known. False: none of the
// result's. What is left of a sum may be nothing.
bool has_points(const Phases& phases, const std::vector<NpuProduct::Limit>& limits,
                BoxRanges& ranges);

// Of what finishes a phase: elements from a position of the operand's tile to the next, the points
// of the ranges being apart. kFailedPrecondition: it reads more than its own points.
absl::StatusOr<std::vector<int64_t>> source_strides(const VectorValue& operand,
                                                    const BoxRanges& ranges);

}  // namespace lw::lowering
