// Integer sums scaled to i8 as NPUs do: the spellings that mean exactly that. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>

#include "src/expr/expr.h"

namespace lw {

// i8: f32(sums) times the scale, rounded half to even, plus `zero`, saturated, then into [lo, hi].
struct Requantisation {
  Expr sums;                               // i32
  const ExprNode* scale = nullptr;         // a read of f32; null: `factor`
  double factor = 1;
  int8_t zero = 0, lo = -128, hi = 127;
};

// cast(i8, clamp(round(cast(f32, sums) * scale) + zero, lo, hi)), any of scale, zero and bounds
// left out, bounds as max and min in any order; or cast(i8, clamp(sums, lo, hi)) with bounds of i8.
std::optional<Requantisation> requantisation(const Expr& e);

}  // namespace lw
