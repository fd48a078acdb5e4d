#include "schedules/npu/vector_functions.h"

#include <cmath>
#include <initializer_list>

namespace lw {
namespace {

Expr number(double value) { return make_const(Type::kF32, value); }
Expr add(const Expr& a, const Expr& b) { return make_binary(ExprOp::kAdd, a, b); }
Expr mul(const Expr& a, const Expr& b) { return make_binary(ExprOp::kMul, a, b); }
Expr least(const Expr& a, const Expr& b) { return make_binary(ExprOp::kMin, a, b); }
Expr most(const Expr& a, const Expr& b) { return make_binary(ExprOp::kMax, a, b); }
Expr reciprocal(const Expr& x) { return make_binary(ExprOp::kDiv, number(1), x); }
Expr exponential(const Expr& x) { return make_unary(ExprOp::kExp, x); }

// By Horner's rule, the highest power's first.
Expr polynomial(const Expr& x, std::initializer_list<double> coefficients) {
  Expr sum;
  for (const double c : coefficients) {
    sum = sum == nullptr ? number(c) : add(mul(sum, x), number(c));
  }
  return sum;
}

}  // namespace

// 1 - 2 / (exp(2 x) + 1), which is exact to some 2^-23: too little near 0. There Taylor's series
// is, whose terms have alternating signs, so that between two of its sums lies the function.
Expr tanh_of(const Expr& argument) {
  const Expr x = least(most(argument, number(-10)), number(10)), y = mul(x, x);
  const Expr direct =
      add(mul(reciprocal(add(exponential(mul(x, number(2))), number(1))), number(-2)), number(1));
  const Expr seventh = mul(polynomial(y, {-17. / 315, 2. / 15, -1. / 3, 1}), x);
  const Expr fourth = mul(y, y);
  const Expr ninth = add(mul(mul(mul(fourth, fourth), x), number(62. / 2835)), seventh);
  return most(least(seventh, ninth), least(most(seventh, ninth), direct));
}

// The same with 1 - P(t) exp(-x^2), t = 1 / (1 + .3275911 |x|): Abramowitz and Stegun, 7.1.26,
// whose error is 1.5e-7. Of |x|; the sign is that of 2 / sqrt(pi) x, beyond which erf(x) never is.
Expr erf_of(const Expr& argument) {
  constexpr double kSlope = 1.12837916709551257390;  // at 0
  const Expr x = least(make_unary(ExprOp::kAbs, argument), number(8)), y = mul(x, x);
  const Expr t = reciprocal(add(mul(x, number(0.3275911)), number(1)));
  const Expr tail = mul(polynomial(t, {1.061405429, -1.453152027, 1.421413741, -0.284496736,
                                       0.254829592}),
                        t);
  const Expr direct = add(mul(mul(tail, exponential(mul(y, number(-1)))), number(-1)), number(1));
  const Expr ninth =
      mul(polynomial(y, {kSlope / 216, -kSlope / 42, kSlope / 10, -kSlope / 3, kSlope}), x);
  const Expr fourth = mul(y, y), power = mul(mul(mul(fourth, fourth), y), x);
  const Expr eleventh = add(mul(power, number(-kSlope / 1320)), ninth);
  const Expr size = least(most(direct, eleventh), ninth);
  return most(least(size, mul(argument, number(kSlope))), mul(size, number(-1)));
}

}  // namespace lw
