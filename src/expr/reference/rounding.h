// What kernels promise of floats, and what the oracle therefore admits. docs/numbers.md says the
// same at length; every back-end and the reference keep to it.
//
// Arithmetic is in the operands' type, f16 and bf16 in f32. A kernel may add the terms of a sum and
// multiply the factors of a product in any order, contract a product and the sum that it goes into
// to one rounding, divide by multiplying with the reciprocal, and leave a temporary of a 16-bit type
// unrounded. Nothing else is rearranged: outputs and explicit casts are rounded, to nearest even.
//
// Near zero: subnormal operands and results of f64, f32 and f16 are honoured; those of bf16, and
// f32 arithmetic in a program that holds bf16, may be zero instead. At infinity: what overflows the
// type of its operation is infinite, what is defined there is exact (exp(-inf) is 0, sigmoid(-inf)
// is 0, x / inf is 0, log(0) is -inf), and where(), pad() and their masks never show a value that
// they do not choose. What has no value (0 / 0, inf - inf, 0 * inf, log and sqrt of negatives) is
// NaN, and NaN goes through every function but comparisons, casts to integers (0), max, min, pow.
//
// Left open: max, min and pow of a NaN; the sign of a zero, so which infinity x / 0 and rsqrt(0)
// are; quotients by less than 4 / (largest number); whether a result within a factor of 4 of the
// largest number is infinite, and what follows from partial sums or products that overflow; what
// depends on a comparison, floor, ceil, round or cast that an admissible error can turn.
//
// The admissible error of a value is a ball's radius: each operation takes the radii of its operands
// to that of its result, to all orders, and adds its own rounding: 4 u |v| for + - * / sqrt (0 when
// the operands are exact and so is the result), 16 u |v| for the other functions, and for a sum of K
// terms 8 u sqrt(K) (sum of |terms|), each with at least one smallest subnormal. u: unit roundoff.
// Random walks of roundings stay below 1 sqrt(K), so a right kernel has a margin, and one dropped
// term of a sum of K is still noticed up to K around 10^4 in f32.
#pragma once

#include "src/expr/expr.h"

namespace lw {

// Of the type that kernels compute a float type in.
struct Arithmetic {
  double unit = 0;     // unit roundoff: half a unit in the last place of 1
  double tiny = 0;     // the smallest subnormal
  double largest = 0;  // finite number
  double beyond = 0;   // from here on rounding gives infinity (f64: infinity)
};
const Arithmetic& arithmetic_of(Type type);

constexpr double kRoundings = 4;           // units of + - * / sqrt
constexpr double kFunctionRoundings = 16;  // units of exp and the like (src/build/llvm_math.cc)
constexpr double kSumRoundings = 8;        // units, times sqrt(K), of a sum of K terms

}  // namespace lw
