#include "schedules/dot.h"

#include <utility>

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

}  // namespace lw
