// What tiles of matrices cost a sub-group, whose items have parts of each (schedules/targets/simt/
// matrix_shape.h). Internal to cost_model. Pure.
#pragma once

#include "absl/functional/function_ref.h"
#include "cost_model/simt/wide.h"
#include "schedules/nest.h"

namespace lw::cost::simt {

// One tile, rounded up to whole matrices.
struct MatrixTile {
  double m = 1, n = 1, k = 1;              // instructions along each
  double products() const { return m * n * k; }
  double words = 0;                        // registers of an item that hold it
};
MatrixTile matrix_tile(const Nest& nest, const Stage& stage, const double* extents);

// How a sub-group moves one operand of the tile, or its results: `count` accesses at once, of
// `neighbours`, several to an instruction.
struct FragmentMoves {
  double count = 0, bytes = 4;             // bytes: of an item
  double instructions = 0;
  Neighbours neighbours;
};
// `side`: 0 of a, 1 of b, 2 of results. `shared`: it lies in memory that the group shares. `stride`:
// bytes that a step along an axis moves.
FragmentMoves fragment_moves(const Nest& nest, const Stage& stage, const MatrixTile& tile, int side,
                             bool shared, double element_bytes,
                             absl::FunctionRef<double(int axis)> stride);

}  // namespace lw::cost::simt
