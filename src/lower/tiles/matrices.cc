// A tile's extents are rounded up to whole matrices: what is beyond an end is masked where it is
// read, and counts as zero, and where it is stored.
#include "src/lower/tiles/matrices.h"

#include <algorithm>
#include <utility>

#include "schedules/dot.h"
#include "src/lower/tiles/operand.h"
#include "src/lower/tiles/rows.h"
#include "src/lower/tiles/wide.h"

namespace lw::lowering {
namespace {

const MatrixShape& shape_of(const Frame& f) { return matrix_shape_of(f.e.nest, f.stage); }

int64_t whole(int64_t extent, int64_t unit) { return (extent + unit - 1) / unit * unit; }

// Whole matrices along the axis, those of its points that there are being below a limit.
void round_up(AxisState& axis, int64_t unit) {
  if (axis.extent % unit == 0) return;
  axis.limits.push_back(axis.base + affine(axis.extent));
  axis.extent = whole(axis.extent, unit);
}

Frame::InMatrices place_in_matrices(Frame& f) {
  if (f.e.counting) return {};
  const Affine lane = f.e.emit_int(Stmt::IntOp::kMod, f.e.item(), {}, kMatrixItems);
  const auto of_lane = [&](Stmt::IntOp op, int64_t by) { return f.e.emit_int(op, lane, {}, by); };
  return {of_lane(Stmt::IntOp::kDiv, 4), of_lane(Stmt::IntOp::kMod, 4),
          of_lane(Stmt::IntOp::kMod, 2 * kMatrixRows), of_lane(Stmt::IntOp::kDiv, 2 * kMatrixRows)};
}

}  // namespace

Frame of_results(Frame& f) {
  if (f.stage.matrix < 0) return f;
  f.place = place_in_matrices(f);
  const MatrixShape& shape = shape_of(f);
  Frame results = f;
  AxisState &m = results.axes[f.stage.matrix_axes[0]], &n = results.axes[f.stage.matrix_axes[1]];
  round_up(n, shape.n);
  n.base = n.base + f.place.t * 2;
  if (f.stage.rows_over < 0) round_up(m, shape.m);
  const int64_t eight = eight_along(f, f.stage.matrix_axes[0]);
  if (eight == kMatrixRows || f.e.counting) {
    m.base = m.base + f.place.g;
    return results;
  }
  AxisState& over = results.axes[f.stage.rows_over];
  m.base = m.base + f.e.emit_int(Stmt::IntOp::kMod, f.place.g, {}, eight);
  over.base = over.base + f.e.emit_int(Stmt::IntOp::kDiv, f.place.g, {}, eight);
  return results;
}

int64_t eight_along(const Frame& f, int axis) {
  const int m = f.stage.matrix_axes[0], over = f.stage.rows_over;
  const int64_t along_m = over < 0 ? kMatrixRows : std::min(kMatrixRows, f.axes[m].extent);
  return axis == m ? along_m : axis == over ? kMatrixRows / along_m : 1;
}

Row moved_rows(const Frame& f, Row row, int64_t rows) {
  const int m = f.stage.matrix_axes[0], over = f.stage.rows_over;
  const int64_t along_m = f.axes[m].extent;
  row.move(m, over < 0 ? rows : rows % along_m);
  if (over >= 0) row.move(over, rows / along_m);
  return row;
}

std::vector<Chunk> matrix_columns(int64_t extent) {
  std::vector<Chunk> chunks;
  for (int64_t at = 0; at < extent; at += kMatrixRows) chunks.push_back({at, 2, 2});
  return chunks;
}

void multiply_matrices(Frame& f, const Accumulators& accumulators) {
  if (is_wide(f.e.nest, f.stage)) return multiply_wide(f, accumulators);
  const MatrixShape& shape = shape_of(f);
  const int m = f.stage.matrix_axes[0], n = f.stage.matrix_axes[1], k = f.stage.matrix_axes[2];
  const DotFactors factors = factors_of_tile(f.e.nest, f.stage, f.e.bodies[f.s]);
  Frame whole_tile = f;
  round_up(whole_tile.axes[m], shape.m);
  round_up(whole_tile.axes[n], shape.n);
  round_up(whole_tile.axes[k], shape.k);
  const int64_t rows = whole_tile.axes[m].extent, columns = whole_tile.axes[n].extent;
  Operand a(whole_tile, shape, factors.a, 0), b(whole_tile, shape, factors.b, 1);
  Row row{whole_tile.axes, std::vector<int64_t>(f.axes.size(), 0)};
  for (int64_t step = 0; step < whole_tile.axes[k].extent; step += shape.k) {
    std::vector<std::vector<int>> of_a;
    for (int64_t i = 0; i < rows; i += shape.m) {
      of_a.push_back(a.parts(i, step, shape.halves()));
    }
    for (int64_t j = 0; j < columns;) {
      // Two at once, where there are two.
      const int count = j + shape.n < columns ? 2 : 1;
      const std::vector<int> of_b = b.parts(j, step, count);
      for (int c = 0; c < count; ++c, j += shape.n) {
        for (size_t i = 0; i < of_a.size(); ++i) {
          Stmt product;
          product.op = Op::kMatrixProduct;
          for (int half = 0; half < shape.halves(); ++half) {
            row.offset[m] = static_cast<int64_t>(i) * shape.m + kMatrixRows * half;
            product.many.push_back(accumulators.at(position(f, row, {j, 2, 2})).reg);
          }
          product.many.insert(product.many.end(), of_a[i].begin(), of_a[i].end());
          for (int part = 0; part < shape.parts(); ++part) {
            product.many.push_back(of_b[part * count + c]);
          }
          f.e.emit(std::move(product));
        }
      }
    }
  }
}

namespace {

// Matrices along a side of the tile.
int64_t along(const Frame& f, int side, int unit) {
  int64_t points = f.axes[f.stage.matrix_axes[side]].extent;
  if (side == 0 && f.stage.rows_over >= 0) points *= f.axes[f.stage.rows_over].extent;
  return (points + unit - 1) / unit;
}

}  // namespace

int64_t count_products(const Frame& f) {
  const MatrixShape& shape = shape_of(f);
  const int64_t m = along(f, 0, shape.m), n = along(f, 1, shape.n), k = along(f, 2, shape.k);
  if (is_wide(f.e.nest, f.stage)) return f.stage.made ? k * (1 + shape.a_registers()) : k;
  return k * (m * n + m * shape.a_registers() + n * shape.b_registers());
}

int64_t count_matrix_results(const Frame& f) {
  const MatrixShape& shape = shape_of(f);
  return along(f, 0, shape.m) * along(f, 1, shape.n) * shape.acc_registers();
}

}  // namespace lw::lowering
