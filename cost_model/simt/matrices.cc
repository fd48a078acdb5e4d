#include "cost_model/simt/matrices.h"

#include <algorithm>
#include <cmath>

#include "schedules/dot.h"

namespace lw::cost::simt {
MatrixTile matrix_tile(const Nest& nest, const Stage& stage, const double* extents) {
  const MatrixShape& shape = matrix_shape_of(nest, stage);
  const auto whole = [&](int side, int unit) {
    return std::max(1.0, std::ceil(extents[stage.matrix_axes[side]] / unit));
  };
  MatrixTile tile{whole(0, shape.m), whole(1, shape.n), whole(2, shape.k), 0};
  tile.words = static_cast<double>(
      shape.words(static_cast<int64_t>(tile.m), static_cast<int64_t>(tile.n)));
  return tile;
}

FragmentMoves fragment_moves(const Nest& nest, const Stage& stage, const MatrixTile& tile, int side,
                             double element_bytes, absl::FunctionRef<double(int axis)> stride) {
  const MatrixShape& shape = matrix_shape_of(nest, stage);
  const int along = stage.matrix_axes[side == 2 ? 1 : 2];  // where an item's lanes lie
  const int across = stage.matrix_axes[side == 2 ? 0 : side];
  const double lanes = side == 2 ? 2 : shape.pack;
  double count = tile.m * tile.k * shape.a_registers();
  if (side == 1) count = tile.n * tile.k * shape.b_registers();
  if (side == 2) count = tile.m * tile.n * shape.acc_registers();
  FragmentMoves moves;
  const bool together = std::abs(stride(along)) <= element_bytes;
  moves.count = together ? count : count * lanes;
  moves.bytes = together ? lanes * element_bytes : element_bytes;
  moves.neighbours.lanes = static_cast<int>(kMatrixItems);
  moves.neighbours.parts = {{kMatrixRows, stride(across)},
                            {kMatrixItems / kMatrixRows, lanes * stride(along)}};
  return moves;
}

}  // namespace lw::cost::simt
