// What tensors hold where a condition leaves nothing of them: minus infinity beyond a causal mask, and
// the zeros that its exponential is there. Internal to src/lower.
#pragma once

#include <optional>
#include <vector>

#include "src/expr/expr.h"

namespace lw::lowering {

// Adds the affine comparisons of a conjunction, each as what is then at least zero. False: there is
// something else in it too.
bool add_comparisons(const Expr& condition, std::vector<Expr>* at_least_zero);

struct Outside {
  std::vector<Expr> at_least_zero;         // affine in the tensor's axes; where one is negative ...
  double value = 0;                        // ... every element is this
};
// By its definition and those that it reads: `where(c, x, VALUE)`; exp(t) and t - m, m the maxima of
// t's rows, none of which is all minus infinity. Floats only; nothing where nothing is known.
std::optional<Outside> outside_of(const Program& program, int tensor);

}  // namespace lw::lowering
