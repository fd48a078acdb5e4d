// A tile's extents are rounded up to whole matrices: what is beyond an end is masked where it is
// read, and counts as zero, and where it is stored.
#include "src/lower/tiles/matrices.h"

#include <algorithm>

#include "schedules/dot.h"
#include "src/base/check.h"
#include "src/lower/tiles/rows.h"

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

// Of one operand: what an item reads of the tile's matrices, each register once.
class Operand {
 public:
  // `side`: 0 of a, whose rows run along m; 1 of b, whose columns run along n.
  Operand(Frame& f, const MatrixShape& shape, const Expr& factor, int side)
      : f_(f), shape_(shape), factor_(factor), type_(side == 0 ? shape.a : shape.b),
        axis_(f.stage.matrix_axes[side]), k_(f.stage.matrix_axes[2]),
        evaluator_(f.e, f.s, f.vars) {
    if (factor->op == ExprOp::kRead) evaluator_.memory().keep_raw(true);
    start_.axes = f.axes;
    start_.offset.assign(f.axes.size(), 0);
    const int other = f.stage.matrix_axes[1 - side];
    start_.axes[other].limits.clear();     // it does not move with that
    start_.axes[axis_].base = start_.axes[axis_].base + f.place.g;
    start_.axes[k_].base = start_.axes[k_].base + f.place.t * shape.pack;
  }

  // From row or column `at` of the tile and from `step` along k on.
  int part(int64_t at, int64_t step) {
    Row row = start_;
    const auto move = [&](int axis, int64_t by) {
      row.axes[axis].base = row.axes[axis].base + affine(by);
      row.offset[axis] = by;
    };
    move(axis_, at);
    move(k_, step);
    const Chunk chunk{0, shape_.pack, shape_.pack};
    const Point point = make_point(f_, evaluator_, row, k_, chunk);
    Registers& registers = evaluator_.registers();
    Value value = registers.convert(type_, evaluator_.evaluate(factor_, point));
    value = registers.broadcast(value, shape_.pack);
    // Beyond the end of k there may be numbers, and what is made of none is not always zero.
    const int mask = row.axes[k_].limits.empty() ? -1 : point_mask(registers, point);
    if (mask < 0) return value.reg;
    return registers.select({mask, shape_.pack}, value, registers.zero_like(value)).reg;
  }

 private:
  Frame& f_;
  const MatrixShape& shape_;
  const Expr factor_;
  const Type type_;
  const int axis_, k_;
  Evaluator evaluator_;
  Row start_;
};

Frame::InMatrices place_in_matrices(Frame& f) {
  if (f.e.counting) return {};
  const Affine lane = f.e.emit_int(Stmt::IntOp::kMod, f.e.item(), {}, kMatrixItems);
  return {f.e.emit_int(Stmt::IntOp::kDiv, lane, {}, 4),
          f.e.emit_int(Stmt::IntOp::kMod, lane, {}, 4)};
}

}  // namespace

Frame of_results(Frame& f) {
  if (f.stage.matrix < 0) return f;
  f.place = place_in_matrices(f);
  const MatrixShape& shape = shape_of(f);
  Frame results = f;
  AxisState &m = results.axes[f.stage.matrix_axes[0]], &n = results.axes[f.stage.matrix_axes[1]];
  round_up(m, shape.m);
  round_up(n, shape.n);
  m.base = m.base + f.place.g;
  n.base = n.base + f.place.t * 2;
  return results;
}

std::vector<Chunk> matrix_columns(int64_t extent) {
  std::vector<Chunk> chunks;
  for (int64_t at = 0; at < extent; at += kMatrixRows) chunks.push_back({at, 2, 2});
  return chunks;
}

void multiply_matrices(Frame& f, const Accumulators& accumulators) {
  const MatrixShape& shape = shape_of(f);
  const int m = f.stage.matrix_axes[0], n = f.stage.matrix_axes[1], k = f.stage.matrix_axes[2];
  const std::optional<DotFactors> factors = matrix_factors(
      *f.e.nest.target, f.e.bodies[f.s], f.e.tensor(f.stage.tensor).type, m, n);
  CHECK(factors.has_value());              // the step has looked
  Frame whole_tile = f;
  round_up(whole_tile.axes[m], shape.m);
  round_up(whole_tile.axes[n], shape.n);
  round_up(whole_tile.axes[k], shape.k);
  const int64_t rows = whole_tile.axes[m].extent, columns = whole_tile.axes[n].extent;
  Operand a(whole_tile, shape, factors->a, 0), b(whole_tile, shape, factors->b, 1);
  Row row{whole_tile.axes, std::vector<int64_t>(f.axes.size(), 0)};
  for (int64_t step = 0; step < whole_tile.axes[k].extent; step += shape.k) {
    std::vector<std::vector<int>> of_a;
    for (int64_t i = 0; i < rows; i += shape.m) {
      std::vector<int>& parts = of_a.emplace_back();
      for (int part = 0; part < shape.parts(); ++part) {
        for (int half = 0; half < shape.halves(); ++half) {
          parts.push_back(a.part(i + kMatrixRows * half, step + int64_t{4} * shape.pack * part));
        }
      }
    }
    for (int64_t j = 0; j < columns; j += shape.n) {
      std::vector<int> of_b;
      for (int part = 0; part < shape.parts(); ++part) {
        of_b.push_back(b.part(j, step + int64_t{4} * shape.pack * part));
      }
      for (size_t i = 0; i < of_a.size(); ++i) {
        Stmt product;
        product.op = Op::kMatrixProduct;
        for (int half = 0; half < shape.halves(); ++half) {
          row.offset[m] = static_cast<int64_t>(i) * shape.m + kMatrixRows * half;
          product.many.push_back(accumulators.at(position(f, row, {j, 2, 2})).reg);
        }
        product.many.insert(product.many.end(), of_a[i].begin(), of_a[i].end());
        product.many.insert(product.many.end(), of_b.begin(), of_b.end());
        f.e.emit(std::move(product));
      }
    }
  }
}

namespace {

// Matrices along a side of the tile.
int64_t along(const Frame& f, int side, int unit) {
  return (f.axes[f.stage.matrix_axes[side]].extent + unit - 1) / unit;
}

}  // namespace

int64_t count_products(const Frame& f) {
  const MatrixShape& shape = shape_of(f);
  const int64_t m = along(f, 0, shape.m), n = along(f, 1, shape.n), k = along(f, 2, shape.k);
  return k * (m * n + m * shape.a_registers() + n * shape.b_registers());
}

int64_t count_matrix_results(const Frame& f) {
  const MatrixShape& shape = shape_of(f);
  return along(f, 0, shape.m) * along(f, 1, shape.n) * shape.acc_registers();
}

}  // namespace lw::lowering
