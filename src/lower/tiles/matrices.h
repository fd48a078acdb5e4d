// Tiles that sub-groups compute by instructions which multiply matrices: of each of these an item has
// parts (schedules/targets/matrix_shape.h), and its points are the elements of those. Internal.
#pragma once

#include <cstdint>
#include <vector>

#include "src/lower/tiles/rows.h"
#include "src/lower/tiles/tile.h"

namespace lw::lowering {

// The frame, of the item's results: where the stage's tile is matrices, of whose place among them `f`
// then knows, its rows are every eighth, its vectors two columns of each eight.
Frame of_results(Frame& f);
std::vector<Chunk> matrix_columns(int64_t extent);

// Of a stage whose tile is matrices: points of the axis that eight of its rows have, of which one
// is the item's.
int64_t eight_along(const Frame& f, int axis);
// `row` as it is so many rows further.
Row moved_rows(const Frame& f, Row row, int64_t rows);

// accumulators += the products of the tile.
void multiply_matrices(Frame& f, const Accumulators& accumulators);

// Statements of the products of the tile and of what they read; vectors of results.
int64_t count_products(const Frame& f);
int64_t count_matrix_results(const Frame& f);

}  // namespace lw::lowering
