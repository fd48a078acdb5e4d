// A tile's extents are rounded up to whole matrices: what is beyond an end is masked where it is
// read, and counts as zero, and where it is stored.
#include "src/lower/tiles/matrices.h"

#include <algorithm>
#include <utility>

#include "schedules/dot.h"
#include "src/base/check.h"
#include "src/lower/statements.h"
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

// Of one operand: what an item reads of the tile's matrices, each register once.
class Operand {
 public:
  // `side`: 0 of a, whose rows run along m; 1 of b, whose columns run along n.
  Operand(Frame& f, const MatrixShape& shape, const Expr& factor, int side)
      : f_(f), shape_(shape), factor_(factor), type_(side == 0 ? shape.a : shape.b),
        axis_(f.stage.matrix_axes[side]), k_(f.stage.matrix_axes[2]),
        evaluator_(f.e, f.s, f.vars), rows_{evaluator_, evaluator_} {
    for (Evaluator* evaluator : {&evaluator_, &rows_[0], &rows_[1]}) {
      if (factor->op == ExprOp::kRead) evaluator->memory().keep_raw(true);
    }
    tile_.axes = f.axes;
    tile_.offset.assign(f.axes.size(), 0);
    const int other = f.stage.matrix_axes[1 - side];
    tile_.axes[other].limits.clear();      // it does not move with that
    start_ = tile_;
    start_.axes[axis_].base = start_.axes[axis_].base + f.place.g;
    start_.axes[k_].base = start_.axes[k_].base + f.place.t * shape.pack;
  }

  // The registers from row or column `at` of the tile and from `step` along k on, of two eights of
  // rows or columns, where there are `eights` of them: for each part of k its eights'.
  std::vector<int> parts(int64_t at, int64_t step, int eights) {
    if (eights == 2) {
      for (const bool across : {false, true}) {
        if (std::vector<int> all = from_rows(at, step, across); !all.empty()) return all;
      }
    }
    std::vector<int> all;
    for (int part = 0; part < shape_.parts(); ++part) {
      for (int eight = 0; eight < eights; ++eight) {
        all.push_back(part_of(at + kMatrixRows * eight, step + int64_t{4} * shape_.pack * part));
      }
    }
    return all;
  }

 private:
  Row moved(Row row, int64_t at, int64_t step) const {
    for (const auto& [axis, by] : {std::pair{axis_, at}, std::pair{k_, step}}) {
      row.axes[axis].base = row.axes[axis].base + affine(by);
      row.offset[axis] = by;
    }
    return row;
  }

  // The same by rows of 16 bytes that items read for each other, along k or `across` it. Nothing
  // where the operand does not lie so in memory that they share.
  std::vector<int> from_rows(int64_t at, int64_t step, bool across) {
    if (elsewhere_[across]) return {};
    elsewhere_[across] = true;
    const int size = size_of(type_);
    const bool halves = shape_.parts() == 2 && shape_.pack * size == kMatrixPartBytes;
    if (factor_->op != ExprOp::kRead || !halves || (across && size != 2)) return {};
    Row row = moved(tile_, at, step);
    const int along = across ? axis_ : k_, other = across ? k_ : axis_;
    const int lanes = static_cast<int>(kMatrixRowBytes) / size;
    row.axes[other].base = row.axes[other].base + f_.place.row;
    row.axes[along].base = row.axes[along].base + f_.place.half * lanes;
    const Point point = make_point(f_, rows_[across], row, along, {0, lanes, lanes});
    std::vector<Stmt> made;
    int reg = -1;
    f_.e.emit_into(made, [&] { reg = rows_[across].evaluate(factor_, point).reg; });
    const bool found = is_row(made, reg);
    for (Stmt& s : made) {
      if (found || s.kind == Stmt::Kind::kInt) f_.e.out->push_back(std::move(s));
    }
    if (!found) return {};
    elsewhere_[across] = false;
    std::vector<int> all(4);
    for (int& part : all) part = f_.e.new_register(type_, shape_.pack);
    Stmt parts;
    parts.op = Op::kMatrixParts;
    parts.srcs[0] = reg;
    parts.integer = across ? 1 : 0;
    parts.many = across ? std::vector<int>{all[0], all[2], all[1], all[3]} : all;
    f_.e.emit(std::move(parts));
    return all;
  }

  // Whether, besides numbers, it is a load of a whole row that the group shares.
  bool is_row(const std::vector<Stmt>& made, int reg) const {
    for (const Stmt& s : made) {
      if (s.kind != Stmt::Kind::kInt && &s != &made.back()) return false;
    }
    if (made.empty() || !is_op(made.back(), Op::kLoad)) return false;
    const Stmt& load = made.back();
    const Buffer& buffer = f_.e.kernel.buffers[load.buffer];
    return load.dst == reg && load.mask < 0 && load.indices < 0 && load.stride == 1 &&
           buffer.scope == Scope::kManaged && buffer.type == type_ &&
           byte_alignment(load.index, size_of(type_)) >= kMatrixRowBytes;
  }

  int part_of(int64_t at, int64_t step) {
    const Row row = moved(start_, at, step);
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

  Frame& f_;
  const MatrixShape& shape_;
  const Expr factor_;
  const Type type_;
  const int axis_, k_;
  Evaluator evaluator_, rows_[2];
  Row tile_, start_;                       // its first point; the item's first
  bool elsewhere_[2] = {false, false};     // no rows are found along k, across it
};

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
  if (is_wide(f.e.nest, f.stage)) return multiply_wide(f, accumulators);
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
  return (f.axes[f.stage.matrix_axes[side]].extent + unit - 1) / unit;
}

}  // namespace

int64_t count_products(const Frame& f) {
  const MatrixShape& shape = shape_of(f);
  const int64_t m = along(f, 0, shape.m), n = along(f, 1, shape.n), k = along(f, 2, shape.k);
  if (is_wide(f.e.nest, f.stage)) return k;
  return k * (m * n + m * shape.a_registers() + n * shape.b_registers());
}

int64_t count_matrix_results(const Frame& f) {
  const MatrixShape& shape = shape_of(f);
  return along(f, 0, shape.m) * along(f, 1, shape.n) * shape.acc_registers();
}

}  // namespace lw::lowering
