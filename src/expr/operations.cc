#include "src/expr/operations.h"

#include <limits>

#include "src/expr/scalar.h"

namespace lw {
namespace {

using enum Domain;
using B = const Ball&;

constexpr double kOpen = std::numeric_limits<double>::infinity();

double same_radius(B b) { return b.radius; }

double exp_radius(B b) {
  if (std::isinf(b.value)) return std::exp(b.x - b.radius) > 4 * b.largest ? 0 : kOpen;
  return b.radius == 0 ? 0 : b.value * std::expm1(b.radius);
}

double log_radius(B b) {
  if (b.radius == 0) return 0;
  return b.x > b.radius ? -std::log1p(-b.radius / b.x) : kOpen;
}

double sqrt_radius(B b) {
  if (b.radius == 0) return 0;
  return b.x > b.radius ? b.radius / (b.value + std::sqrt(b.x - b.radius)) : kOpen;
}

double rsqrt_radius(B b) {
  if (b.x == 0) return kOpen;              // the sign of the zero
  if (b.radius == 0) return 0;
  return b.x > b.radius ? 1 / std::sqrt(b.x - b.radius) - b.value : kOpen;
}

// Of these the slope is greatest at the ball's point nearest to zero.
double tanh_radius(B b) {
  const double t = std::tanh(b.least_size());
  return std::min(2.0, b.radius * (1 - t * t));
}

double erf_radius(B b) {
  const double x = b.least_size();
  return std::min(2.0, b.radius * M_2_SQRTPI * std::exp(-x * x));
}

double sigmoid_radius(B b) {
  const double decay = std::exp(-b.least_size());
  return std::min(1.0, b.radius * decay / ((1 + decay) * (1 + decay)));
}

}  // namespace

constexpr ExprOpRow kExprOpRows[kExprOps] = {
    {ExprOp::kConst, "const"},
    {ExprOp::kAxis, "axis"},
    {ExprOp::kRead, "read"},
    {ExprOp::kPad, "pad"},
    {ExprOp::kSelect, "select"},
    {ExprOp::kCast, "cast"},
    {ExprOp::kAdd, "add", 2},
    {ExprOp::kSub, "sub", 2},
    {ExprOp::kMul, "mul", 2},
    {ExprOp::kDiv, "div", 2},
    {ExprOp::kMod, "mod", 2, kInteger},
    {ExprOp::kMin, "min", 2, kNumber, true},
    {ExprOp::kMax, "max", 2, kNumber, true},
    {ExprOp::kPow, "pow", 2, kFloat, true, true},
    {ExprOp::kAnd, "and", 2, kBool},
    {ExprOp::kOr, "or", 2, kBool},
    {ExprOp::kEq, "eq", 2, kAny},
    {ExprOp::kNe, "ne", 2, kAny},
    {ExprOp::kLt, "lt", 2},
    {ExprOp::kLe, "le", 2},
    {ExprOp::kGt, "gt", 2},
    {ExprOp::kGe, "ge", 2},
    {ExprOp::kNeg, "neg", 1, kNumber, false, false, [](double x) { return -x; }, same_radius},
    {ExprOp::kNot, "not", 1, kBool},
    {ExprOp::kAbs, "abs", 1, kNumber, true, false, [](double x) { return std::fabs(x); },
     same_radius},
    {ExprOp::kExp, "exp", 1, kFloat, true, false, [](double x) { return std::exp(x); }, exp_radius,
     Rounding::kFunction, Growth::kTamed},
    {ExprOp::kLog, "log", 1, kFloat, true, true, [](double x) { return std::log(x); }, log_radius,
     Rounding::kFunction, Growth::kTamed},
    {ExprOp::kSqrt, "sqrt", 1, kFloat, true, true, [](double x) { return std::sqrt(x); },
     sqrt_radius, Rounding::kArithmetic, Growth::kRoot},
    {ExprOp::kRsqrt, "rsqrt", 1, kFloat, true, true, [](double x) { return 1 / std::sqrt(x); },
     rsqrt_radius, Rounding::kFunction, Growth::kRoot},
    {ExprOp::kTanh, "tanh", 1, kFloat, true, false, [](double x) { return std::tanh(x); },
     tanh_radius, Rounding::kFunction, Growth::kTamed},
    {ExprOp::kErf, "erf", 1, kFloat, true, false, [](double x) { return std::erf(x); }, erf_radius,
     Rounding::kFunction, Growth::kTamed},
    {ExprOp::kSigmoid, "sigmoid", 1, kFloat, true, false,
     [](double x) { return 1 / (1 + std::exp(-x)); }, sigmoid_radius, Rounding::kFunction,
     Growth::kTamed},
    {ExprOp::kFloor, "floor", 1, kFloat, true, false, [](double x) { return std::floor(x); }},
    {ExprOp::kCeil, "ceil", 1, kFloat, true, false, [](double x) { return std::ceil(x); }},
    {ExprOp::kRound, "round", 1, kFloat, true, false, round_half_even},
};
static_assert([] {
  for (int i = 0; i < kExprOps; ++i) {
    const ExprOpRow& row = kExprOpRows[i];
    if (row.op != static_cast<ExprOp>(i)) return false;
    // apply_float() of one operand calls it.
    if (row.operands == 1 && row.takes != kBool && row.value == nullptr) return false;
  }
  return true;
}());

bool is_binary(ExprOp op) { return row_of(op).operands == 2; }
bool is_unary(ExprOp op) { return row_of(op).operands == 1; }

bool is_commutative(ExprOp op) {
  switch (op) {
    case ExprOp::kAdd: case ExprOp::kMul: case ExprOp::kMin: case ExprOp::kMax:
    case ExprOp::kAnd: case ExprOp::kOr: case ExprOp::kEq: case ExprOp::kNe: return true;
    default: return false;
  }
}

std::string_view op_name(ExprOp op) { return row_of(op).name; }

}  // namespace lw
