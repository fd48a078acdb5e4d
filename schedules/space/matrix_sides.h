// Which axes of a stage are the sides of matrices that the target's instructions multiply. Internal to
// schedules.
#pragma once

#include <optional>

#include "schedules/nest.h"

namespace lw::rules {

// Indices into the stage's axes: results along m and n, the reduction along k.
struct MatrixSides {
  int m = -1, n = -1, k = -1;
};

// Of several the longest, along n of equal ones the last. Nothing: the stage is no such product.
std::optional<MatrixSides> matrix_sides(const Nest& nest, int stage);
// Of an unscheduled stage, where there is a tile for four sub-groups together (steps/simt/wide_tile.cc):
// the same, or with m and n exchanged, where few rows of results are its columns.
std::optional<MatrixSides> wide_sides(const Nest& nest, int stage);

}  // namespace lw::rules
