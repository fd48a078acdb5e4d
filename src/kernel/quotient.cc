#include "src/kernel/quotient.h"

#include <numeric>

#include "src/expr/scalar.h"

namespace lw {
namespace {

constexpr int64_t kLarge = int64_t{1} << 40;  // beyond it, nothing is concluded: kernels may be read

}  // namespace

void bound_quotients(const std::vector<Quotient>& quotients, const Affine& fact,
                     std::vector<Affine>* facts) {
  for (const Quotient& q : quotients) {
    const Affine most = fact + q.of, least = q.of - fact;
    if (most.is_constant())
      facts->push_back(affine(floor_div(most.constant, q.divisor)) - variable(q.var));
    if (least.is_constant())
      facts->push_back(variable(q.var) - affine(floor_div(least.constant, q.divisor)));
  }
}

Affine whole_numbers(Affine fact) {
  const auto large = [](int64_t value) { return value > kLarge || value < -kLarge; };
  int64_t common = 0;
  for (const Affine::Term& t : fact.terms) {
    if (large(t.coefficient)) return fact;
    common = std::gcd(common, t.coefficient);
  }
  if (common > 1 && !large(fact.constant))
    fact.constant = floor_div(fact.constant, common) * common;
  return fact;
}

}  // namespace lw
