// How a stage's axes move what it reads, for the copies of the vector engine's operands. Internal
// to schedules/npu.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "schedules/nest.h"
#include "src/expr/expr.h"

namespace lw {

// At sums of multiples of axes.
struct VectorRead {
  std::vector<std::vector<int64_t>> steps;  // of each dimension, by axis
  std::vector<int64_t> sizes;              // elements to the next position of each dimension
  std::vector<int64_t> first;              // position in each dimension where all axes are 0
  std::vector<bool> leaves;                // dimensions of which some position is outside
  int64_t begin = 0;                       // element where all axes are 0
  std::vector<int64_t> by_axis;            // elements that each axis moves
};
// Axes of extent 1 move nothing. kFailedPrecondition: any other index.
absl::StatusOr<VectorRead> vector_read(const Nest& nest, int stage, const ExprNode& read);

// The dimension that the axis moves together with others, none of which moves another, nor is
// `vector_axis`: it is loaded once for all of them, and so is one that leaves the tensor. -1: there
// is none.
int window_of(const VectorRead& read, int axis, int vector_axis);

}  // namespace lw
