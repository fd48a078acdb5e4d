// Between which numbers the integer variables of a kernel lie, as its statements define them. Internal
// to src/build.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "src/expr/scalar.h"
#include "src/kernel/kernel.h"

namespace lw {

class IntegerRanges {
 public:
  struct Bounds {
    int64_t lo = 0, hi = 0;
  };
  // What comes from a register is taken to lie within these.
  static constexpr int64_t kFar = int64_t{1} << 31;

  explicit IntegerRanges(const Kernel& kernel) : of_(kernel.variables) {}

  Bounds& operator[](int var) { return of_[var]; }
  const Bounds& operator[](int var) const { return of_[var]; }

  Bounds range(const Affine& a) const {
    Bounds sum{a.constant, a.constant};
    for (const Affine::Term& term : a.terms) {
      const Bounds& v = of_[term.var];
      const int64_t x = term.coefficient * v.lo, y = term.coefficient * v.hi;
      sum.lo += std::min(x, y);
      sum.hi += std::max(x, y);
    }
    return sum;
  }

  // `s`: kInt, whose variable has its range from now on. `items`: of the group.
  void define(const Stmt& s, int64_t items) { of_[s.var] = value(s, items); }

 private:
  Bounds value(const Stmt& s, int64_t items) const {
    const Bounds a = range(s.a), b = range(s.b);
    switch (s.int_op) {
      case Stmt::IntOp::kAffine: return a;
      case Stmt::IntOp::kDiv: return {floor_div(a.lo, s.divisor), floor_div(a.hi, s.divisor)};
      case Stmt::IntOp::kMod:
        if (a.lo >= 0 && a.hi < s.divisor) return a;
        return {0, s.divisor - 1};
      case Stmt::IntOp::kMin: return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
      case Stmt::IntOp::kMax: return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
      case Stmt::IntOp::kRegister: return {-kFar, kFar - 1};
      case Stmt::IntOp::kItem: return {0, items - 1};
    }
    return {};
  }

  std::vector<Bounds> of_;
};

// By how much a dividend is raised so that truncating division rounds down; a multiple of the divisor.
inline int64_t raised_by(const IntegerRanges::Bounds& dividend, int64_t divisor) {
  return dividend.lo >= 0 ? 0 : -floor_div(dividend.lo, divisor) * divisor;
}

}  // namespace lw
