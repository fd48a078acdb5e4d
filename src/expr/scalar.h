// What one operation does to one value: the semantics of expr.h, written once. Constant folding,
// the reference and the analyses all call these, so they cannot disagree.
//
// A float of any type travels as a double, an integer or bool of any type as an int64_t that is
// already wrapped to its type. All functions are pure and total: no operand is undefined behaviour.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "src/expr/expr.h"
#include "src/expr/operations.h"

namespace lw {

// `value` reduced modulo 2^bits into the range of the integer type (bool: value != 0).
inline int64_t wrap(Type type, int64_t value) {
  const TypeRow& row = row_of(type);
  const int unused = 64 - row.bits;
  const uint64_t used = static_cast<uint64_t>(value) << unused;
  if (row.kind == TypeKind::kSigned) return static_cast<int64_t>(used) >> unused;
  if (row.kind == TypeKind::kUnsigned) return static_cast<int64_t>(used >> unused);
  return row.kind == TypeKind::kBool ? value != 0 : value;
}

// Of integers and bool; of floats that of i64.
struct IntegerRange {
  int64_t lo, hi;
};
inline IntegerRange integer_range(Type type) {
  const TypeRow& row = row_of(type);
  if (row.kind == TypeKind::kFloat) return {INT64_MIN, INT64_MAX};
  if (row.kind != TypeKind::kSigned) return {0, INT64_MAX >> (63 - row.bits)};
  const int unused = 64 - row.bits;
  return {INT64_MIN >> unused, INT64_MAX >> unused};
}

// `value` rounded to the nearest value of a float type, ties to even.
double round_to(Type type, double value);

// Float to integer: toward zero, saturating, NaN gives 0. To bool: value != 0.
inline int64_t float_to_int(Type type, double value) {
  if (type == Type::kBool) return value != 0;
  if (std::isnan(value)) return 0;
  IntegerRange range = integer_range(type);
  if (value <= static_cast<double>(range.lo)) return range.lo;
  if (value >= static_cast<double>(range.hi)) return range.hi;
  return static_cast<int64_t>(value);
}

inline int64_t add_wrapping(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t sub_wrapping(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
inline int64_t mul_wrapping(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
inline int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return sub_wrapping(0, a);
  int64_t quotient = a / b;
  return quotient - ((a % b != 0) && ((a < 0) != (b < 0)));
}
inline int64_t floor_mod(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return 0;
  int64_t rest = a % b;
  return rest != 0 && ((rest < 0) != (b < 0)) ? rest + b : rest;
}

inline bool compare(ExprOp op, auto a, auto b) {
  switch (op) {
    case ExprOp::kEq: return a == b;
    case ExprOp::kNe: return a != b;
    case ExprOp::kLt: return a < b;
    case ExprOp::kLe: return a <= b;
    case ExprOp::kGt: return a > b;
    default: return a >= b;
  }
}

// A binary operation on integers of one type (comparisons, and, or give 0 or 1).
inline int64_t apply_int(ExprOp op, Type type, int64_t a, int64_t b) {
  switch (op) {
    case ExprOp::kAdd: return wrap(type, add_wrapping(a, b));
    case ExprOp::kSub: return wrap(type, sub_wrapping(a, b));
    case ExprOp::kMul: return wrap(type, mul_wrapping(a, b));
    case ExprOp::kDiv: return wrap(type, floor_div(a, b));
    case ExprOp::kMod: return wrap(type, floor_mod(a, b));
    case ExprOp::kMin: return a < b ? a : b;
    case ExprOp::kMax: return a > b ? a : b;
    case ExprOp::kAnd: return a & b;
    case ExprOp::kOr: return a | b;
    default: return compare(op, a, b);
  }
}

// A binary operation on floats that gives a float.
inline double apply_float(ExprOp op, double a, double b) {
  switch (op) {
    case ExprOp::kAdd: return a + b;
    case ExprOp::kSub: return a - b;
    case ExprOp::kMul: return a * b;
    case ExprOp::kDiv: return a / b;
    case ExprOp::kMin: return a < b ? a : b;
    case ExprOp::kMax: return a > b ? a : b;
    default: return std::pow(a, b);
  }
}

inline double round_half_even(double value) {
  double down = std::floor(value);
  double rest = value - down;
  if (rest != 0.5) return rest < 0.5 ? down : down + 1;
  return std::fmod(down, 2) == 0 ? down : down + 1;
}

// A unary operation on a float.
inline double apply_float(ExprOp op, double a) { return row_of(op).value(a); }

// A unary operation on an integer or bool: neg, abs, not.
inline int64_t apply_int(ExprOp op, Type type, int64_t a) {
  switch (op) {
    case ExprOp::kNeg: return wrap(type, sub_wrapping(0, a));
    case ExprOp::kAbs: return wrap(type, a < 0 ? sub_wrapping(0, a) : a);
    default: return !a;
  }
}

inline Domain domain_of(ExprOp op) { return row_of(op).takes; }
bool accepts(Domain domain, Type type);
bool is_comparison(ExprOp op);             // eq ne lt le gt ge

// What combines two values of a reduction; sums and products of booleans are whether any is, and
// whether all are. REQUIRES: there is one.
inline ExprOp combining_op(Reduce reduce, Type type) {
  switch (reduce) {
    case Reduce::kSum: return type == Type::kBool ? ExprOp::kOr : ExprOp::kAdd;
    case Reduce::kProd: return type == Type::kBool ? ExprOp::kAnd : ExprOp::kMul;
    case Reduce::kMax: return ExprOp::kMax;
    default: return ExprOp::kMin;
  }
}

}  // namespace lw
