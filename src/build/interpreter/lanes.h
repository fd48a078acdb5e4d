// One lane of a register, and what operations make of lanes: src/expr/scalar.h's arithmetic, so that
// kernels and the reference cannot disagree. Floats of every type travel as doubles rounded to their
// type after each operation (for f32 that equals f32 arithmetic), integers as wrapped int64. Internal
// to src/build.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/expr/element.h"
#include "src/expr/scalar.h"
#include "src/kernel/kernel.h"

namespace lw {

union Lane {
  double number;
  int64_t integer;
};
using Lanes = std::vector<Lane>;

namespace lane {

inline Lane unary(const Stmt& s, Type type, Lane a) {
  if (is_float(type)) return {.number = round_to(type, apply_float(s.expr_op, a.number))};
  return {.integer = apply_int(s.expr_op, type, a.integer)};
}

inline Lane binary(ExprOp op, Type type, Lane a, Lane b) {
  if (!is_float(type)) return {.integer = apply_int(op, type, a.integer, b.integer)};
  if (is_comparison(op)) return {.integer = compare(op, a.number, b.number)};
  return {.number = round_to(type, apply_float(op, a.number, b.number))};
}

inline Lane fma(Type type, Lane a, Lane b, Lane c) {
  switch (type) {
    case Type::kF64: return {.number = std::fma(a.number, b.number, c.number)};
    case Type::kF32:
      return {.number = std::fma(static_cast<float>(a.number), static_cast<float>(b.number),
                                 static_cast<float>(c.number))};
    default:
      return {.integer = wrap(type, add_wrapping(mul_wrapping(a.integer, b.integer), c.integer))};
  }
}

inline Lane cast(Type to, Type from, Lane a) {
  if (is_float(to)) {
    // Straight from the integer: i64 to f32 through f64 would round twice.
    if (to == Type::kF32 && !is_float(from)) return {.number = static_cast<float>(a.integer)};
    const double exact = is_float(from) ? a.number : static_cast<double>(a.integer);
    return {.number = round_to(to, exact)};
  }
  return {.integer = is_float(from) ? float_to_int(to, a.number) : wrap(to, a.integer)};
}

inline Lane combine(Reduce reduce, Type type, Lane a, Lane b) {
  return binary(combining_op(reduce, type), type, a, b);
}

// In the order of the LLVM backend: halves, or one after the other.
inline Lane horizontal(Reduce reduce, Type type, Lanes lanes) {
  size_t count = lanes.size();
  if ((count & (count - 1)) != 0) {
    for (size_t i = 1; i < count; ++i) lanes[0] = combine(reduce, type, lanes[0], lanes[i]);
    return lanes[0];
  }
  for (count /= 2; count >= 1; count /= 2) {
    for (size_t i = 0; i < count; ++i) {
      lanes[i] = combine(reduce, type, lanes[i], lanes[count + i]);
    }
  }
  return lanes[0];
}

// As memory has it, and more.
inline std::array<std::byte, sizeof(int64_t)> bytes(Type type, Lane a) {
  std::array<std::byte, sizeof(int64_t)> value;
  if (is_float(type)) store_element(type, value.data(), 0, a.number);
  else store_integer(type, value.data(), 0, a.integer);
  return value;
}

}  // namespace lane
}  // namespace lw
