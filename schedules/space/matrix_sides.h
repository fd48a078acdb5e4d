// Which axes of a stage are the sides of matrices that the target's instructions multiply. Internal to
// schedules.
#pragma once

#include <optional>
#include <vector>

#include "schedules/nest.h"

namespace lw::rules {

// Indices into the stage's axes: results along m and n, the reduction along k. Rows of two axes are
// those along m of each point along `over`.
struct MatrixSides {
  int m = -1, n = -1, k = -1, over = -1;
};

// Of several the longest, along n of equal ones the last. Nothing: the stage is no such product.
std::optional<MatrixSides> matrix_sides(const Nest& nest, int stage);
// Of an unscheduled stage, the ways in which there are tiles for four sub-groups together
// (steps/simt/wide_tile.cc). First the same sides, or with m and n exchanged, where few rows of
// results are its columns; and unless its rows fill tiles, rows of two axes: of the last that may
// be and each other.
std::vector<MatrixSides> wide_ways(const Nest& nest, int stage);

}  // namespace lw::rules
