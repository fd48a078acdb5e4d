// How many statements a register tile takes, without making them: what count_statements() adds up.
#include <algorithm>

#include "src/lower/tiles/matrices.h"
#include "src/lower/tiles/rows.h"

namespace lw::lowering {
namespace {

// Bit per axis of the stage on which the tensor's axis `axis` depends.
uint64_t stage_axes(const Stage& stage, int axis) {
  if (stage.axis_value.empty()) return uint64_t{1} << std::min(axis, 62);
  uint64_t mask = 0;
  visit(stage.axis_value[axis], [&](const ExprNode& part) {
    if (part.op == ExprOp::kAxis) mask |= uint64_t{1} << std::min(part.index, 62);
  });
  return mask;
}

int64_t product(const std::vector<int64_t>& points, uint64_t axes) {
  int64_t count = 1;
  for (size_t a = 0; a < points.size(); ++a) {
    if (axes >> std::min<size_t>(a, 62) & 1) count *= points[a];
  }
  return count;
}

// Statements that evaluating takes at all points: each value once for those that agree in the axes
// it depends on, and a broadcast where the lanes do. Indices and what edges need come on top.
class Counter {
 public:
  Counter(const Frame& f, const std::vector<int64_t>& points)
      : f_(f), points_(points), va_(vector_axis(f)) {}

  void add(const Expr& value) { walk(value, true); }
  int64_t total() const { return total_; }

 private:
  // The axes that the expression depends on. `counts`: it is a value, no index and no condition.
  uint64_t walk(const Expr& expr, bool counts) {
    auto [it, fresh] = known_.try_emplace({expr.get(), counts}, 0);
    if (!fresh) return it->second;
    const bool inside = counts && expr->op != ExprOp::kRead && expr->type != Type::kBool;
    uint64_t axes = expr->op == ExprOp::kAxis ? stage_axes(f_.stage, expr->index) : 0;
    for (const Expr& arg : expr->args) axes |= walk(arg, inside);
    known_[{expr.get(), counts}] = axes;
    if (counts) count(*expr, axes);
    return axes;
  }

  void count(const ExprNode& e, uint64_t axes) {
    if (e.op == ExprOp::kRead) {
      const bool broadcast = va_ >= 0 && !(axes >> std::min(va_, 62) & 1);
      total_ += (broadcast ? 2 : 1) * product(points_, axes);
      return;
    }
    const bool free = e.op == ExprOp::kConst || e.op == ExprOp::kAxis || e.type == Type::kBool;
    const bool passes = e.op == ExprOp::kPad || e.op == ExprOp::kSelect;
    if (!free && !passes) total_ += product(points_, axes);
  }

  const Frame& f_;
  const std::vector<int64_t>& points_;
  const int va_;
  absl::flat_hash_map<std::pair<const ExprNode*, bool>, uint64_t> known_;
  int64_t total_ = 0;
};

int64_t count_values(const Frame& f, const std::vector<int64_t>& points, const Expr& expr) {
  Counter values(f, points);
  values.add(expr);
  return values.total();
}

}  // namespace

// Of an update of all accumulators, a multiply-add or more for each.
void count_update(Frame& f) {
  if (f.stage.matrix >= 0) return f.e.count(count_products(f));
  const std::vector<int64_t> points = unrolled_points(f, true);
  const Expr& body = f.e.bodies[f.s];
  int64_t count = product(points, ~uint64_t{0});
  if (f.stage.dot_group > 1) {
    count /= f.stage.dot_group;            // groups are loaded whole, at best
  } else if (body->op == ExprOp::kMul) {
    Counter values(f, points);
    for (const Expr& factor : body->args) values.add(factor);
    count += values.total();
  } else {
    count += count_values(f, points, body);
  }
  f.e.count(count);
}

// Of storing all results.
void count_results(Frame& f, bool values) {
  if (f.stage.matrix >= 0) {
    return f.e.count(count_matrix_results(f) * static_cast<int64_t>(1 + f.stage.epilogue.size()));
  }
  const std::vector<int64_t> points = unrolled_points(f, values);
  const int64_t results = product(points, ~uint64_t{0});
  int64_t count = results * static_cast<int64_t>(1 + f.stage.epilogue.size());
  if (values) count += count_values(f, points, f.e.bodies[f.s]);
  f.e.count(count / std::max<int64_t>(1, f.stage.group));
}

}  // namespace lw::lowering
