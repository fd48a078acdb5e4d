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

// Whether 32 bits hold all that is computed of integer variables, whichever terms are added first.
class WordsHold {
 public:
  explicit WordsHold(const Kernel& kernel) : kernel_(kernel), ranges_(kernel) {}
  bool list(const std::vector<Stmt>& statements) {
    return std::all_of(statements.begin(), statements.end(),
                       [this](const Stmt& s) { return statement(s); });
  }

 private:
  bool statement(const Stmt& s) {
    switch (s.kind) {
      case Stmt::Kind::kFor:
        ranges_[s.var] = {0, s.count - 1};
        if (s.parallel) items_ = s.items;
        return s.count <= INT32_MAX && list(s.body);
      case Stmt::Kind::kIf:
        return std::all_of(s.conditions.begin(), s.conditions.end(),
                           [this](const Affine& a) { return holds(a); }) &&
               list(s.body) && list(s.otherwise);
      case Stmt::Kind::kInt: return integer(s);
      case Stmt::Kind::kOp: {
        const int64_t lanes = s.dst >= 0 ? kernel_.registers[s.dst].lanes : 1;
        return holds(s.index, lanes * s.stride);
      }
      case Stmt::Kind::kBlock: return true;
    }
    return true;
  }

  bool integer(const Stmt& s) {
    const bool divides = s.int_op == Stmt::IntOp::kDiv || s.int_op == Stmt::IntOp::kMod;
    const int64_t raised = divides ? raised_by(ranges_.range(s.a), s.divisor) : 0;
    if (!holds(s.a, raised) || !holds(s.b) || s.divisor > INT32_MAX) return false;
    ranges_.define(s, items_);
    return true;
  }

  bool holds(const Affine& a, int64_t more = 0) const {
    int64_t lo = 0, hi = 0;
    const auto add = [&](int64_t least, int64_t most) {
      lo += std::min({int64_t{0}, least, most});
      hi += std::max({int64_t{0}, least, most});
    };
    add(a.constant, a.constant);
    add(more, more);
    for (const Affine::Term& term : a.terms) {
      const IntegerRanges::Bounds& v = ranges_[term.var];
      if (std::abs(term.coefficient) > INT32_MAX) return false;
      add(term.coefficient * v.lo, term.coefficient * v.hi);
    }
    return lo >= INT32_MIN && hi <= INT32_MAX;
  }

  const Kernel& kernel_;
  IntegerRanges ranges_;
  int64_t items_ = 1;
};
inline bool words_hold(const Kernel& kernel) {
  return WordsHold(kernel).list(kernel.prepack) && WordsHold(kernel).list(kernel.body);
}

}  // namespace lw
