// What values an index can take: linear forms, intervals, and the proof that a read stays inside
// its tensor. Everything is sound for wrapping i64 arithmetic: where exact arithmetic would leave
// the range of i64 the answer is the whole range.
#pragma once

#include <functional>
#include <vector>

#include "src/expr/expr.h"
#include "src/expr/scalar.h"

namespace lw {

// Structural equality.
bool same(const Expr& a, const Expr& b);

// An index as a sum: `summand(atom, factor)` is called for every part of it that is neither a sum
// nor a multiple, axes among them, as often as it occurs; `factor` times what remains is added to
// `constant`. `left` counts down the nodes that may still be looked at, of which what is shared is
// as many as it occurs; false: there were more.
template <class Summand>
bool add_summands(const Expr& index, int64_t factor, int64_t& constant, int& left,
                  const Summand& summand) {
  if (--left < 0) return false;
  const std::vector<Expr>& args = index->args;
  switch (index->op) {
    case ExprOp::kConst:
      constant = add_wrapping(constant, mul_wrapping(factor, index->integer));
      return true;
    case ExprOp::kNeg:
      return add_summands(args[0], sub_wrapping(0, factor), constant, left, summand);
    case ExprOp::kAdd:
    case ExprOp::kSub: {
      const int64_t second = index->op == ExprOp::kAdd ? factor : sub_wrapping(0, factor);
      const bool whole = add_summands(args[0], factor, constant, left, summand);
      return add_summands(args[1], second, constant, left, summand) && whole;
    }
    case ExprOp::kMul:
      for (const int side : {0, 1}) {
        if (args[side]->op != ExprOp::kConst) continue;
        const int64_t product = mul_wrapping(factor, args[side]->integer);
        return add_summands(args[1 - side], product, constant, left, summand);
      }
      break;
    default: break;
  }
  summand(index, factor);
  return true;
}

// sum of factor * atom, plus a constant. Atoms are distinct, non-linear or axis nodes, in order of
// first occurrence; factors are not 0.
struct Linear {
  struct Term {
    Expr atom;
    int64_t factor;
  };
  std::vector<Term> terms;
  int64_t constant = 0;
};
Linear linear_form(const Expr& index);     // REQUIRES: type kI64

constexpr Interval kWholeRange = {INT64_MIN, INT64_MAX};

// What is known at a point of a body: each axis' interval, and linear forms that are >= 0.
struct Facts {
  std::vector<Interval> axes;
  std::vector<Linear> nonnegative;
};
Facts facts_of(const std::vector<Axis>& axes);

// Adds what follows from `condition` being true (`holds`) or false, as far as it compares indices.
void assume(const Expr& condition, bool holds, Facts* facts);

// An enclosure of the values of `index` under `facts`.
Interval interval_of(const Expr& index, const Facts& facts);

// Whether `index` reads a tensor: a gather, checked where it runs and not here.
bool is_gather(const Expr& index);

// A read whose index may leave [0, extent) although no pad or select protects it, or (with pad) an
// index whose arithmetic may overflow.
struct ReadFault {
  const ExprNode* read;
  int dimension;
  Interval range;
  int64_t extent;
};
using ShapeOf = std::function<const std::vector<int64_t>&(int tensor)>;
std::vector<ReadFault> find_read_faults(const Expr& body, const Facts& facts,
                                        const ShapeOf& shape_of);

}  // namespace lw
