#include "src/lower/kernel_quotient.h"

#include "src/expr/scalar.h"

namespace lw {

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

}  // namespace lw
