#include "schedules/dot.h"

#include <utility>

#include "schedules/legality.h"
#include "src/base/check.h"
#include "src/base/message.h"

namespace lw {

std::optional<DotFactors> dot_factors(const Target& target, const Expr& term, Type acc) {
  const Expr* product = &term;
  while ((*product)->op == ExprOp::kSelect) product = &(*product)->args[1];
  const auto converted = [&](const Expr& e) { return e->op == ExprOp::kCast && e->type == acc; };
  if ((*product)->op != ExprOp::kMul || (*product)->type != acc) return std::nullopt;
  const Expr &left = (*product)->args[0], &right = (*product)->args[1];
  if (!converted(left) || !converted(right)) return std::nullopt;
  DotFactors factors{left->args[0], right->args[0], nullptr};
  factors.atom = dot_product(target, factors.a->type, factors.b->type, acc);
  if (factors.atom == nullptr) return std::nullopt;
  if (factors.a->type != factors.atom->a) std::swap(factors.a, factors.b);
  return factors;
}

namespace {

bool moves_with(const Expr& expr, int axis) {
  bool found = false;
  visit(expr, [&](const ExprNode& node) {
    found = found || (node.op == ExprOp::kAxis && node.index == axis);
  });
  return found;
}

}  // namespace

std::optional<DotFactors> matrix_factors(const Target& target, const Expr& term, Type acc, int m,
                                         int n) {
  if (term->op != ExprOp::kMul || term->type != acc) return std::nullopt;
  const auto factor = [&](const Expr& e) {
    return e->op == ExprOp::kCast && e->type == acc ? e->args[0] : e;
  };
  DotFactors factors{factor(term->args[0]), factor(term->args[1]), nullptr};
  if (!moves_with(factors.a, m)) std::swap(factors.a, factors.b);
  const bool apart = moves_with(factors.a, m) && !moves_with(factors.a, n) &&
                     moves_with(factors.b, n) && !moves_with(factors.b, m);
  if (!apart) return std::nullopt;
  factors.atom = matrix_product(target, factors.a->type, factors.b->type, acc);
  if (factors.atom == nullptr) return std::nullopt;
  return factors;
}

const ExprNode* read_of_factor(const Expr& factor, bool* padded) {
  const bool pads = factor->op == ExprOp::kPad && is_zero(*factor->args[1]);
  if (padded != nullptr) *padded = pads;
  const Expr& read = pads ? factor->args[0] : factor;
  return read->op == ExprOp::kRead ? read.get() : nullptr;
}

absl::StatusOr<ProductSides> product_sides(const Nest& nest, const Step& step) {
  ProductSides sides;
  ASSIGN_OR_RETURN(sides.stage, target_stage(nest, step));
  if (step.names.size() < 4) {
    return infeasible(concat(step.kind->name, " names a stage and three loops of it"));
  }
  const Stage& s = nest.stages[sides.stage];
  const Tensor& tensor = nest.program->tensors[s.tensor];
  if (s.copy_of >= 0 || tensor.reduce != Reduce::kSum || s.place != Place::kRoot) {
    return infeasible(concat(s.name, " is no sum at the root"));
  }
  if (!s.axis_value.empty()) {
    return infeasible(concat(s.name, " has other axes than its tensor"));
  }
  if (tile_begin(s) < static_cast<int>(s.loops.size())) {
    return infeasible(concat(s.name, " has a tile already"));
  }
  for (int side = 0; side < 3; ++side) {
    ASSIGN_OR_RETURN(sides.position[side], loop_position(s, step.names[side + 1]));
    const Loop& loop = s.loops[sides.position[side]];
    if (!is_plain(loop) || is_reduction(s, loop) != (side == 2)) {
      return infeasible(concat(loop.name, " runs over no ", side == 2 ? "reduction" : "results"));
    }
    sides.axis[side] = loop.parts[0].axis;
  }
  const std::optional<DotFactors> factors = matrix_factors(
      *nest.target, effective_body(nest, sides.stage), tensor.type, sides.axis[0], sides.axis[1]);
  if (!factors) return infeasible(concat(nest.target->name, " multiplies no such matrices"));
  sides.factors = *factors;
  sides.shape = find_matrix_shape(factors->atom->a, factors->atom->b, factors->atom->acc);
  if (sides.shape == nullptr) {
    return infeasible(concat("no kernel has words for ", factors->atom->name));
  }
  return sides;
}

const MatrixShape& matrix_shape_of(const Nest& nest, const Stage& stage) {
  const Atom& atom = nest.target->atoms[stage.matrix];
  const MatrixShape* const shape = find_matrix_shape(atom.a, atom.b, atom.acc);
  CHECK(shape != nullptr);                 // the step has looked
  return *shape;
}

DotFactors factors_of_tile(const Nest& nest, const Stage& stage, const Expr& body) {
  const std::optional<DotFactors> factors =
      matrix_factors(*nest.target, body, nest.program->tensors[stage.tensor].type,
                     stage.matrix_axes[0], stage.matrix_axes[1]);
  CHECK(factors.has_value());              // the step has looked
  return *factors;
}

bool is_wide(const Nest& nest, const Stage& stage) {
  return nest.target->atoms[stage.matrix].m == kWideRows;
}

}  // namespace lw
