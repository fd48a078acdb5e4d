// Tiles that sub-groups compute by instructions which multiply matrices: of each of these an item has
// parts (schedules/targets/matrix_shape.h), and its points are the elements of those. Internal.
#pragma once

#include <vector>

#include "src/lower/tiles/tile.h"

namespace lw::lowering {

// Of a matrix an item has one of so many rows, or of as many columns.
inline constexpr int64_t kMatrixRows = 8;

// Emits what an item's place follows from. REQUIRES: the stage's tile is matrices.
Frame::InMatrices place_in_matrices(Frame& f);
// The frame, of the item's results: its rows are every eighth, its vectors two columns of each eight.
Frame of_results(const Frame& f);
std::vector<Chunk> matrix_columns(int64_t extent);

// accumulators += the products of the tile.
void multiply_matrices(Frame& f, const Accumulators& accumulators);

}  // namespace lw::lowering
