// How an error in the operands of an operation scales its result's: the magnitude m of a value v is
// such that a kernel's error in v is admissible up to c * u * sqrt(K) * m. For a leaf m is |v|, for
// a sum the sum of the terms' m; elsewhere m is |v| or the derivative times the operand's m, the
// larger. An infinite value is exact and has m = 0.
#include <algorithm>
#include <cmath>

#include "src/expr/engine.h"
#include "src/expr/scalar.h"

namespace lw {
namespace {

double through(ExprOp op, double x, double value, double m) {
  const double size = std::fabs(value);
  switch (op) {
    case ExprOp::kNeg:
    case ExprOp::kAbs: return m;
    case ExprOp::kExp: return size * std::max(1.0, m);
    case ExprOp::kLog: return std::max(size, m / std::fabs(x));
    case ExprOp::kSqrt: return value > 0 ? std::max(size, m / (2 * value)) : std::sqrt(m);
    case ExprOp::kRsqrt: return std::max(size, size * m / (2 * std::fabs(x)));
    case ExprOp::kTanh: return std::max(size, (1 - value * value) * m);
    case ExprOp::kErf: return std::max(size, M_2_SQRTPI * std::exp(-x * x) * m);
    case ExprOp::kSigmoid: return std::max(size, value * (1 - value) * m);
    default: return std::max(size, m);     // floor, ceil, round
  }
}

double through(ExprOp op, double x, double y, double value, double mx, double my) {
  const double size = std::fabs(value);
  switch (op) {
    case ExprOp::kAdd:
    case ExprOp::kSub: return mx + my;
    case ExprOp::kMul: return std::max(size, mx * std::fabs(y) + std::fabs(x) * my - size);
    case ExprOp::kDiv: return std::max(size, mx / std::fabs(y) + size * my / std::fabs(y) - size);
    case ExprOp::kPow: {
      const double by_exponent = x > 0 ? std::fabs(std::log(x)) * my : 0;
      return size * std::max(1.0, std::fabs(y) * mx / std::fabs(x) + by_exponent);
    }
    default: return std::max(mx, my);      // min, max
  }
}

}  // namespace

void Engine::run_magnitude(const Step& step, int n) {
  const double* value = floats(step.dst);
  double* out = sizes(step.dst);
  for (int i = 0; i < n; ++i) {
    double m;
    if (step.op == ExprOp::kSelect) {
      m = ints(step.a)[i] ? sizes(step.b)[i] : sizes(step.c)[i];
    } else if (step.op == ExprOp::kCast) {
      m = is_float(step.from) ? sizes(step.a)[i] : std::fabs(value[i]);
    } else if (step.b >= 0) {
      m = through(step.op, floats(step.a)[i], floats(step.b)[i], value[i], sizes(step.a)[i],
                  sizes(step.b)[i]);
    } else {
      m = through(step.op, floats(step.a)[i], value[i], sizes(step.a)[i]);
    }
    out[i] = std::isfinite(value[i]) && std::isfinite(m) ? m : 0;
  }
}

}  // namespace lw
