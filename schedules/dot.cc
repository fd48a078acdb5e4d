#include "schedules/dot.h"

#include <utility>

#include "src/base/check.h"

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

const MatrixShape& matrix_shape_of(const Nest& nest, const Stage& stage) {
  const Atom& atom = nest.target->atoms[stage.matrix];
  const MatrixShape* const shape = find_matrix_shape(atom.a, atom.b, atom.acc);
  CHECK(shape != nullptr);                 // the step has looked
  return *shape;
}

bool is_wide(const Nest& nest, const Stage& stage) {
  return nest.target->atoms[stage.matrix].m == kWideRows;
}

}  // namespace lw
