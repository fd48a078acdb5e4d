// Where an operand's elements lie is asked of the evaluator: what it would load says so. Nothing is
// loaded; the instruction finds rows and columns by strides. What items make of a they have in
// registers of each step's own, all of which are free where the tile's products are done.
#include "src/lower/tiles/wide.h"

#include <map>
#include <optional>
#include <utility>

#include "schedules/dot.h"
#include "src/lower/statements.h"
#include "src/lower/tiles/operand.h"
#include "src/lower/tiles/rows.h"

namespace lw::lowering {
namespace {

// Columns that lie side by side; all of them where rows run along k.
struct Panels {
  int64_t count = 1, columns;
};

class SharedFactor {
 public:
  // `side`: 0 of a, of which a sub-group has 16 rows; 1 of b.
  SharedFactor(Frame& f, const MatrixShape& shape, const Expr& factor, int side)
      : f_(f), type_(side == 0 ? shape.a : shape.b), factor_(factor), side_(side),
        axis_(f.stage.matrix_axes[side]), k_(f.stage.matrix_axes[2]),
        lanes_(static_cast<int>(kMatrixRowBytes) / size_of(type_)),
        evaluators_{{f.e, f.s, f.vars}, {f.e, f.s, f.vars}} {
    for (Evaluator& evaluator : evaluators_) evaluator.memory().keep_raw(true);
    along_k_ = load_at(k_, 0, 0).has_value();
    if (!along_k_) loads_.clear();
  }

  Panels panels() const {
    const int64_t columns = f_.axes[axis_].extent, row = kWideRowBytes / size_of(type_);
    if (side_ == 0 || along_k_ || columns <= row) return {1, columns};
    return {columns / row, row};
  }

  // The view from `step` along k on. Nothing: it does not lie so.
  std::optional<View> view(int64_t step) {
    const int64_t row = kWideRowBytes / size_of(type_);
    const std::optional<Stmt> first = load_at(along(), 0, step);
    if (!first.has_value()) return std::nullopt;
    View view{first->buffer, first->index, {}};
    const auto apart = [&](int64_t at, int64_t more) {
      const std::optional<Stmt> other = load_at(along(), at, step + more);
      const Affine d = other.has_value() ? other->index - first->index : variable(0);
      return d.is_constant() ? d.constant : 0;
    };
    // Of rows along k the next row, of panels the next k, is 128 bytes on.
    if (apart(along_k_ ? 1 : 0, along_k_ ? 0 : 1) != row) return std::nullopt;
    const int64_t panel = panels().count > 1 ? apart(row, 0) : 0;
    const int64_t next = along_k_ ? row : 1, next_k = along_k_ ? 1 : row;
    if (panels().count > 1 && panel == 0) return std::nullopt;
    // Rows of the next point over those along m follow these.
    const int64_t rows = f_.axes[axis_].extent;
    const bool goes_on = side_ == 0 && f_.stage.rows_over >= 0 &&
                         f_.axes[f_.stage.rows_over].extent > 1;
    if (goes_on && apart(rows, 0) != rows * next) return std::nullopt;
    if (side_ == 0) view.strides = {next, 0, 0, next_k};
    else view.strides = {0, panel, next, next_k};
    return view;
  }

 private:
  int along() const { return along_k_ ? k_ : axis_; }

  // What would load 16 bytes along the axis, from `at` rows or columns and `step` along k on. The
  // evaluator says it once.
  const std::optional<Stmt>& load_at(int axis, int64_t at, int64_t step) {
    const auto [known, fresh] = loads_.try_emplace({at, step});
    if (fresh) known->second = made_at(axis, at, step);
    return known->second;
  }

  std::optional<Stmt> made_at(int axis, int64_t at, int64_t step) {
    Row row{f_.axes, std::vector<int64_t>(f_.axes.size(), 0)};
    for (AxisState& state : row.axes) state.limits.clear();  // beyond them there are zeros
    if (side_ == 0) row = moved_rows(f_, std::move(row), at);
    else row.move(axis_, at);
    row.move(k_, step);
    Evaluator& evaluator = evaluators_[axis == k_];
    const Point point = make_point(f_, evaluator, row, axis, {0, lanes_, lanes_});
    std::vector<Stmt> made;
    int reg = -1;
    f_.e.emit_into(made, [&] { reg = evaluator.evaluate(factor_, point).reg; });
    std::optional<Stmt> load;
    for (Stmt& s : made) {
      const bool last = &s == &made.back();
      if (s.kind == Stmt::Kind::kInt) f_.e.out->push_back(std::move(s));
      else if (last && is_whole(s, reg)) load = std::move(s);
    }
    return load;
  }

  bool is_whole(const Stmt& s, int reg) const {
    return is_op(s, Op::kLoad) && s.dst == reg && s.mask < 0 && s.indices < 0 && s.stride == 1 &&
           f_.e.kernel.buffers[s.buffer].swizzled && f_.e.kernel.buffers[s.buffer].type == type_ &&
           byte_alignment(s.index, size_of(type_)) >= kMatrixRowBytes;
  }

  Frame& f_;
  const Type type_;
  const Expr factor_;
  const int side_, axis_, k_, lanes_;
  Evaluator evaluators_[2];                // of either axis: what it has made it does not make again
  std::map<std::pair<int64_t, int64_t>, std::optional<Stmt>> loads_;
  bool along_k_ = false;
};

}  // namespace

bool ends_in_zeros(const Frame& f, const Loop& loop) {
  return loop.tail == Tail::kMask && is_reduction(f.stage, loop) && f.stage.matrix >= 0 &&
         is_wide(f.e.nest, f.stage);
}

void multiply_wide(Frame& f, const Accumulators& accumulators) {
  const MatrixShape& shape = matrix_shape_of(f.e.nest, f.stage);
  const int n = f.stage.matrix_axes[1], k = f.stage.matrix_axes[2];
  const DotFactors factors = factors_of_tile(f.e.nest, f.stage, f.e.bodies[f.s]);
  std::optional<SharedFactor> a;
  std::optional<Operand> made;             // or what items have of it
  if (f.stage.made) made.emplace(f, shape, factors.a, 0);
  else a.emplace(f, shape, factors.a, 0);
  SharedFactor b(f, shape, factors.b, 1);
  const Panels panels = b.panels();
  const Row first{f.axes, std::vector<int64_t>(f.axes.size(), 0)};
  const Row halves[] = {first, moved_rows(f, first, kMatrixRows)};
  std::vector<int> sums;
  for (int64_t j = 0; j < f.axes[n].extent; j += shape.n) {
    for (const Row& half : halves) {
      sums.push_back(accumulators.at(position(f, half, {j, 2, 2})).reg);
    }
  }
  std::vector<Stmt> products;
  for (int64_t step = 0; step < f.axes[k].extent; step += shape.k) {
    const std::optional<View> of_a = made ? View{} : a->view(step), of_b = b.view(step);
    if (!of_a.has_value() || !of_b.has_value()) {
      if (f.e.failure.ok()) f.e.failure = infeasible("an operand lies in no rows of 128 bytes");
      return;
    }
    auto block = std::make_shared<Block>();
    block->op = BlockOp::kProduct;
    block->extents = {shape.m, panels.count, panels.columns, shape.k};
    block->srcs[0] = *of_a;
    block->srcs[1] = *of_b;
    Stmt product;
    product.op = Op::kWideProduct;
    product.many = sums;
    product.block = std::move(block);
    if (made) {                            // goes on while the next step's factor is made
      const std::vector<int> parts = made->parts(0, step, shape.halves());
      product.many.insert(product.many.end(), parts.begin(), parts.end());
      f.e.emit(std::move(product));
    } else {
      products.push_back(std::move(product));
    }
  }
  for (Stmt& product : products) f.e.emit(std::move(product));
  if (!f.products_flow) f.e.emit(Op::kMultiplied, 0);
}

}  // namespace lw::lowering
