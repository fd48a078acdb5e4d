// How a stage's axes move an index: exactly, with quotients and remainders where the axes' extents
// say what these are. Of co = 16 q + p, p < 16, co / 16 is q. Internal to schedules/npu.
#pragma once

#include <optional>
#include <vector>

#include "schedules/nest.h"

namespace lw {

struct IndexSteps {
  int64_t begin = 0;                       // where all axes are 0
  std::vector<int64_t> steps;              // by axis
};
// Of an index of the stage's effective body; none where it is no sum of multiples of the axes.
std::optional<IndexSteps> index_steps(const Nest& nest, int stage, const Expr& index);

}  // namespace lw
