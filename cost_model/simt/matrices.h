// What tiles of matrices cost a sub-group, whose items have parts of each (schedules/targets/simt/
// matrix_shape.h). Internal to cost_model. Pure.
#pragma once

#include "absl/functional/function_ref.h"
#include "cost_model/cpu/analysis.h"
#include "cost_model/simt/wide.h"
#include "schedules/nest.h"
#include "schedules/targets/matrix_shape.h"

namespace lw::cost::simt {

// One tile, rounded up to whole matrices.
struct MatrixTile {
  double m = 1, n = 1, k = 1;              // instructions along each
  double products() const { return m * n * k; }
  double words = 0;                        // registers of an item that hold it
  bool wide = false;                       // four sub-groups multiply together
  // What of the products' instructions, of so many rows, is this sub-group's.
  double share() const { return wide ? 1.0 / kWideSubGroups : 1; }
  // Slots of issue that they take: one, or what says where a wide one's operands are.
  double slots() const { return wide ? k * kWideSlots : products(); }
  // How many wait for each other's results: those of four sub-groups go on in the meantime.
  double in_turn() const { return wide ? 1 : k; }
  static constexpr double kWideSlots = 8;
};
// Those in which a sub-group's items make a tile's factors of what they read, where they do.
double made_slots(const Nest& nest, const StageCost& cost);
MatrixTile matrix_tile(const Nest& nest, const Stage& stage, const double* extents);

// How a sub-group moves one operand of the tile, or its results: `count` accesses at once, of
// `neighbours`, several to an instruction.
struct FragmentMoves {
  double count = 0, bytes = 4;             // bytes: of an item
  double instructions = 0;
  bool rows = false;                       // that items read for each other
  Neighbours neighbours;
};
// `side`: 0 of a, 1 of b, 2 of results. `shared`: it lies in memory that the group shares. `stride`:
// bytes that a step along an axis moves.
FragmentMoves fragment_moves(const Nest& nest, const Stage& stage, const MatrixTile& tile, int side,
                             bool shared, double element_bytes,
                             absl::FunctionRef<double(int axis)> stride);

}  // namespace lw::cost::simt
