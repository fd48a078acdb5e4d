// How many statements a register tile takes, without making them: what count_statements() adds up.
#include <algorithm>

#include "src/lower/rows.h"

namespace lw::lowering {
namespace {

// Bit per axis of the stage on which the expression, over the tensor's axes, depends.
uint64_t stage_axes(const Stage& stage, const Expr& expr) {
  uint64_t mask = 0;
  visit(expr, [&](const ExprNode& node) {
    if (node.op != ExprOp::kAxis) return;
    if (stage.axis_value.empty()) mask |= uint64_t{1} << std::min(node.index, 62);
    else visit(stage.axis_value[node.index], [&](const ExprNode& part) {
      if (part.op == ExprOp::kAxis) mask |= uint64_t{1} << std::min(part.index, 62);
    });
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
int64_t count_values(const Frame& f, const std::vector<int64_t>& points, const Expr& expr) {
  const int va = vector_axis(f);
  const uint64_t axes = stage_axes(f.stage, expr);
  const int64_t times = product(points, axes);
  if (expr->op == ExprOp::kRead) {
    const bool broadcast = va >= 0 && !(axes >> std::min(va, 62) & 1);
    return broadcast ? 2 * times : times;
  }
  if (expr->op == ExprOp::kConst || expr->op == ExprOp::kAxis || expr->type == Type::kBool)
    return 0;
  const bool passes = expr->op == ExprOp::kPad || expr->op == ExprOp::kSelect;
  int64_t count = passes ? 0 : times;
  for (const Expr& arg : expr->args) count += count_values(f, points, arg);
  return count;
}

}  // namespace

// Of an update of all accumulators, a multiply-add or more for each.
void count_update(Frame& f) {
  const std::vector<int64_t> points = unrolled_points(f, true);
  const Expr& body = f.e.bodies[f.s];
  int64_t count = product(points, ~uint64_t{0});
  if (f.stage.dot_group > 1) {
    count /= f.stage.dot_group;            // groups are loaded whole, at best
  } else if (body->op == ExprOp::kMul) {
    for (const Expr& factor : body->args) count += count_values(f, points, factor);
  } else {
    count += count_values(f, points, body);
  }
  f.e.count(count);
}

// Of storing all results.
void count_results(Frame& f, bool values) {
  const std::vector<int64_t> points = unrolled_points(f, values);
  const int64_t results = product(points, ~uint64_t{0});
  int64_t count = results * static_cast<int64_t>(1 + f.stage.epilogue.size());
  if (values) count += count_values(f, points, f.e.bodies[f.s]);
  f.e.count(count / std::max<int64_t>(1, f.stage.group));
}

}  // namespace lw::lowering
