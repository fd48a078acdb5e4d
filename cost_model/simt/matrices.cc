#include "cost_model/simt/matrices.h"

#include <algorithm>
#include <cmath>

#include "schedules/costs.h"
#include "schedules/dot.h"

namespace lw::cost::simt {
MatrixTile matrix_tile(const Nest& nest, const Stage& stage, const double* extents) {
  const MatrixShape& shape = matrix_shape_of(nest, stage);
  const auto whole = [](double points, int unit) {
    return std::max(1.0, std::ceil(points / unit));
  };
  MatrixTile tile{whole(rows_of_box(stage, extents), shape.m),
                  whole(extents[stage.matrix_axes[1]], shape.n),
                  whole(extents[stage.matrix_axes[2]], shape.k), 0};
  tile.wide = is_wide(nest, stage);
  const int64_t m = static_cast<int64_t>(tile.m), n = static_cast<int64_t>(tile.n);
  const bool applied = !stage.epilogue.empty();
  tile.words = static_cast<double>(tile.wide ? shape.words_of_results(m, n, applied)
                                             : shape.words(m, n));
  // For what it is made of ptxas finds room elsewhere.
  if (stage.made) tile.words += static_cast<double>(shape.words_of_made()) / 2;
  return tile;
}

double made_slots(const Nest& nest, const StageCost& cost) {
  const Stage& stage = nest.stages[cost.stage];
  // A factor that is a read is converted to the sum's type by the instruction.
  const double read = costs(*nest.target).of(ExprOp::kCast).slots;
  const double* tile = cost.box_at(cost.tile);
  double slots = 0;
  for (const Ops& ops : cost.body.ops) {
    const auto moves_with = [&](int axis) { return (ops.axes >> (axis & 63) & 1) != 0; };
    const bool results = moves_with(stage.matrix_axes[0]) && moves_with(stage.matrix_axes[1]);
    if (ops.epilogue || results || ops.slots <= read) continue;
    double elements = 1;
    for (const int axis : stage.matrix_axes) elements *= moves_with(axis) ? tile[axis] : 1;
    slots += (ops.slots - read) * elements / kMatrixItems;
  }
  return slots;
}

namespace {

// Bytes between the rows of 16 bytes that items read for each other (Op::kMatrixParts); 0: they
// read their own parts.
double row_stride(const MatrixShape& shape, const MatrixTile& tile, int side, double element_bytes,
                  double across, double along_k) {
  const Type type = side == 0 ? shape.a : shape.b;
  const double eights = side == 0 ? shape.halves() : tile.n;
  if (shape.parts() != 2 || eights < 2 || element_bytes != size_of(type)) return 0;
  const bool along = along_k == element_bytes;
  if (!along && (across != element_bytes || element_bytes != 2)) return 0;
  const double rows = along ? across : along_k;
  return std::fmod(rows, kMatrixRowBytes) == 0 ? rows : 0;
}

}  // namespace

FragmentMoves fragment_moves(const Nest& nest, const Stage& stage, const MatrixTile& tile, int side,
                             bool shared, double element_bytes,
                             absl::FunctionRef<double(int axis)> stride) {
  const MatrixShape& shape = matrix_shape_of(nest, stage);
  const int along = stage.matrix_axes[side == 2 ? 1 : 2];  // where an item's lanes lie
  const int across = stage.matrix_axes[side == 2 ? 0 : side];
  const double lanes = side == 2 ? 2 : shape.pack;
  double count = tile.m * tile.k * shape.a_registers();
  if (side == 1) count = tile.n * tile.k * shape.b_registers();
  if (side == 2) count = tile.m * tile.n * shape.acc_registers();
  FragmentMoves moves;
  // Read by the instruction, rows of 128 bytes at a time.
  if (tile.wide && (side == 1 || (side == 0 && !stage.made))) {
    const Type type = side == 0 ? shape.a : shape.b;
    const double bytes = (side == 0 ? tile.m * shape.m : tile.n * shape.n * tile.share()) *
                         tile.k * shape.k * size_of(type);
    moves.count = bytes / kWideRowBytes;
    moves.instructions = 0;
    moves.bytes = static_cast<double>(kWideRowBytes) / kMatrixItems;
    moves.neighbours.lanes = static_cast<int>(kMatrixItems);
    moves.neighbours.parts = {{static_cast<double>(kMatrixItems), moves.bytes}};
    return moves;
  }
  const double rows = !shared || side == 2 ? 0
                                           : row_stride(shape, tile, side, element_bytes,
                                                        stride(across), stride(along));
  if (rows != 0) {
    moves.rows = true;
    moves.count = count;
    moves.instructions = count * kMatrixRows / kMatrixItems;
    moves.bytes = kMatrixRowBytes;
    moves.neighbours.lanes = static_cast<int>(kMatrixRows);
    moves.neighbours.parts = {{kMatrixRows, rows}};
    return moves;
  }
  const bool together = std::abs(stride(along)) <= element_bytes;
  moves.count = moves.instructions = together ? count : count * lanes;
  moves.bytes = together ? lanes * element_bytes : element_bytes;
  moves.neighbours.lanes = static_cast<int>(kMatrixItems);
  moves.neighbours.parts = {{kMatrixRows, stride(across)},
                            {kMatrixItems / kMatrixRows, lanes * stride(along)}};
  return moves;
}

}  // namespace lw::cost::simt
