// Functions that the vector engine has not, or by a table that is less exact than results may be
// (docs/numbers.md), as expressions of those that it has. Internal to schedules/npu.
#pragma once

#include "src/expr/expr.h"

namespace lw {

// In f32, at most 11 of 2^-24 of the result from it; NaN of NaN.
Expr tanh_of(const Expr& x);
Expr erf_of(const Expr& x);

}  // namespace lw
