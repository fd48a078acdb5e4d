// The admissible error of every value, beside the value: the rules of rounding.h.
#include <algorithm>
#include <cmath>
#include <limits>

#include "src/expr/reference/engine.h"
#include "src/expr/reference/rounding.h"
#include "src/expr/scalar.h"

namespace lw {
namespace {

constexpr double kOpen = std::numeric_limits<double>::infinity();

// Below it values of the type may be zero.
double flushed_below(Type type) { return row_of(type).flushed ? smallest_normal(type) : 0; }

// Lies in two types' worth of exactness: a whole number that f64 holds, or any number of f32.
bool fits(Type type, double value) {
  if (type != Type::kF64) return static_cast<double>(static_cast<float>(value)) == value;
  return std::fabs(value) < 0x1p52 && (value + 0x1.8p52) - 0x1.8p52 == value;
}

bool is_whole(double value) {
  return std::fabs(value) < 0x1p51 && (value + 0x1.8p52) - 0x1.8p52 == value;
}

double farther(double from, double a, double b) {
  const auto distance = [&](double to) { return from == to ? 0 : std::fabs(from - to); };
  const double most = std::max(distance(a), distance(b));
  return std::isnan(most) ? kOpen : most;
}

// The radius of f over the ball of radius e around x, whose centre goes to v; NaN for the part of
// the ball where f is not defined makes it open.
double unary_error(const ExprOpRow& f, double x, double e, double v, const Arithmetic& a) {
  if (!std::isfinite(e)) return kOpen;
  if (!std::isfinite(x) || std::isnan(v)) {
    // log and sqrt below zero, or an operand that is exact.
    const bool reaches_zero = std::isfinite(x) && x + e >= 0;
    return reaches_zero ? kOpen : 0;
  }
  if (f.radius) return f.radius({x, e, v, a.largest});
  return e == 0 ? 0 : farther(v, f.value(x - e), f.value(x + e));
}

double division_error(double x, double y, double ex, double ey, double v, const Arithmetic& a) {
  if (std::isnan(x) || std::isnan(y)) return 0;
  if (std::isinf(y)) return 0;             // 0, or NaN
  const double least = std::fabs(y) - ey;
  if (y == 0 && ey == 0) return x == 0 && ex == 0 ? 0 : kOpen;
  if (!(least > 4 / a.largest)) return kOpen;
  if (std::isinf(x)) return 0;
  // The reciprocal of a large divisor is subnormal.
  return (ex + std::fabs(v) * ey) / least + std::fabs(x) * a.tiny;
}

double power_error(double x, double y, double ex, double ey, double v) {
  if (std::isnan(x) || std::isnan(y)) return kOpen;
  if (ex == 0 && ey == 0) return 0;
  if (!std::isfinite(x) || !std::isfinite(y)) return kOpen;
  const bool whole = ey == 0 && y == std::floor(y);
  const double size = std::fabs(x);
  if (x < 0 && !whole) return kOpen;
  if (size <= ex) {
    // Around zero a positive power is at most that of the farthest point.
    if (!(y > 0) || ey != 0 || (!whole && x < ex)) return kOpen;
    return std::pow(size + ex, y) + std::fabs(v);
  }
  const double by = -(std::fabs(y) + ey) * std::log1p(-ex / size) + std::fabs(std::log(size)) * ey;
  return std::fabs(v) * std::expm1(by);
}

double extremum_error(bool max, double x, double y, double ex, double ey) {
  if (std::isnan(x) || std::isnan(y)) return kOpen;
  if (x == y) return std::max(ex, ey);
  const bool first = max == (x > y);
  const double gap = std::fabs(x - y);
  if (gap > ex + ey) return first ? ex : ey;
  return std::max(ex, ey);
}

}  // namespace

const Arithmetic& arithmetic_of(Type type) {
  static constexpr Arithmetic kDouble = {0x1p-53, 0x1p-1074, 0x1.fffffffffffffp1023, kOpen};
  static constexpr Arithmetic kSingle = {0x1p-24, 0x1p-149, 0x1.fffffep127, 0x1.ffffffp127};
  return type == Type::kF64 ? kDouble : kSingle;
}

// Axes, constants and integer inputs are exact; what came from floats may not be.
void Engine::find_uncertain() {
  uncertain_.assign(static_cast<size_t>(slots_), 0);
  product_.assign(static_cast<size_t>(slots_), 0);
  tiny_ = arithmetic_of(Type::kF32).tiny;
  for (const Tensor& tensor : program_.tensors) {
    tiny_ = std::max(tiny_, flushed_below(tensor.type));
  }
  for (const Axis& axis : tensor_.reduce_axes) terms_ *= static_cast<double>(axis.extent);
  const auto uncertain = [&](int slot) {
    return slot >= 0 && uncertain_[static_cast<size_t>(slot)] != 0;
  };
  for (const Step& step : steps_) {
    bool is = is_float(step.type) || is_float(step.from);
    if (step.load >= 0) {
      const Load& load = loads_[static_cast<size_t>(step.load)];
      is = is || program_.tensors[static_cast<size_t>(load.tensor)].body != nullptr ||
           uncertain(load.fill) || uncertain(load.address);
      for (int slot : load.indices) is = is || uncertain(slot);
    }
    is = is || uncertain(step.a) || uncertain(step.b) || uncertain(step.c);
    for (const auto& [slot, factor] : step.terms) is = is || uncertain(slot);
    uncertain_[static_cast<size_t>(step.dst)] = is;
    product_[static_cast<size_t>(step.dst)] = is_float(step.type) && may_be_product(step);
  }
}

// A product, in whatever wrapping, or a definition's value, which may be one and be inlined here.
bool Engine::may_be_product(const Step& step) const {
  const auto product = [&](int slot) {
    return slot >= 0 && product_[static_cast<size_t>(slot)] != 0;
  };
  if (step.load >= 0) {
    const Load& load = loads_[static_cast<size_t>(step.load)];
    return program_.tensors[static_cast<size_t>(load.tensor)].body != nullptr;
  }
  switch (step.op) {
    case ExprOp::kMul: return true;
    case ExprOp::kNeg: case ExprOp::kCast: return product(step.a);
    case ExprOp::kSelect: return product(step.b) || product(step.c);
    default: return false;
  }
}

double Engine::binary_error(const Step& step, int lane) {
  const double x = floats(step.a)[lane], y = floats(step.b)[lane];
  const double ex = errors(step.a)[lane], ey = errors(step.b)[lane];
  const double v = floats(step.dst)[lane];
  if (!std::isfinite(ex) || !std::isfinite(ey)) return kOpen;
  switch (step.op) {
    case ExprOp::kAdd:
    case ExprOp::kSub:
      if (std::isfinite(x) && std::isfinite(y)) return ex + ey;
      if (std::isnan(x) || std::isnan(y) || !std::isnan(v)) return 0;
      // One of the infinities may be a product that overflowed; added exactly it is none.
      return product_[static_cast<size_t>(step.a)] || product_[static_cast<size_t>(step.b)] ? kOpen
                                                                                           : 0;
    case ExprOp::kMul:
      if (std::isnan(x) || std::isnan(y)) return 0;
      if (std::isinf(x) || std::isinf(y)) {
        const auto may_be_zero = [](double a, double e) { return e != 0 && std::fabs(a) <= e; };
        return may_be_zero(x, ex) || may_be_zero(y, ey) ? kOpen : 0;
      }
      return std::fabs(x) * ey + std::fabs(y) * ex + ex * ey;
    case ExprOp::kDiv: return division_error(x, y, ex, ey, v, arithmetic_of(step.type));
    case ExprOp::kMin: return extremum_error(false, x, y, ex, ey);
    case ExprOp::kMax: return extremum_error(true, x, y, ex, ey);
    default: return power_error(x, y, ex, ey, v);
  }
}

double Engine::cast_error(const Step& step, int lane) {
  const double e = errors(step.a)[lane], v = floats(step.dst)[lane];
  if (!is_float(step.from))
    return e == 0 ? 0 : e + 2 * arithmetic_of(step.type).unit * std::fabs(v);
  const double x = floats(step.a)[lane];
  if (!std::isfinite(e)) return kOpen;
  if (size_of(step.type) > size_of(step.from)) return e;
  const double zero = std::fabs(v) <= flushed_below(step.type) ? std::fabs(v) : 0;
  if (e == 0) return zero;
  return zero + farther(v, round_to(step.type, x - e), round_to(step.type, x + e));
}

void Engine::run_errors(const Step& step, int n) {
  if (!is_float(step.type)) {
    if (uncertain_[static_cast<size_t>(step.dst)]) run_integer_errors(step, n);
    return;
  }
  double* v = floats(step.dst);
  double* out = errors(step.dst);
  const Arithmetic& arithmetic = arithmetic_of(step.type);
  const double tiny = step.type == Type::kF64 ? arithmetic.tiny : tiny_;
  const auto rounding = [&](double value, double roundings) {
    return std::isfinite(value) ? roundings * arithmetic.unit * std::fabs(value) + tiny : 0;
  };
  switch (step.op) {
    case ExprOp::kSelect:
      for (int i = 0; i < n; ++i) {
        const double a = floats(step.b)[i], b = floats(step.c)[i];
        const double ea = errors(step.b)[i], eb = errors(step.c)[i];
        out[i] = ints(step.a)[i] ? ea : eb;
        if (uncertain_[static_cast<size_t>(step.a)] && errors(step.a)[i] != 0) {
          const double apart = farther(a, b, b);
          out[i] = std::max(out[i], apart + (ints(step.a)[i] ? eb : ea));
        }
      }
      return;
    case ExprOp::kCast:
      for (int i = 0; i < n; ++i) out[i] = cast_error(step, i);
      return;
    case ExprOp::kAdd:
    case ExprOp::kSub:
    case ExprOp::kMul: {
      const double *ea = errors(step.a), *eb = errors(step.b);
      const double *x = floats(step.a), *y = floats(step.b);
      const bool product = step.op == ExprOp::kMul, single = step.type != Type::kF64;
      for (int i = 0; i < n; ++i) {
        double e = ea[i] + eb[i];
        // The nearest f64 is no proof that the result was one: 6 * (1 / 3.) is 2.
        if (e == 0 && fits(step.type, v[i]) &&
            (single || (fits(step.type, x[i]) && fits(step.type, y[i])))) {
          out[i] = 0;
          continue;
        }
        if (product) e = std::fabs(x[i]) * eb[i] + std::fabs(y[i]) * ea[i] + ea[i] * eb[i];
        out[i] = e + kRoundings * arithmetic.unit * std::fabs(v[i]) + tiny;
      }
      break;
    }
    case ExprOp::kDiv:
      for (int i = 0; i < n; ++i) {
        out[i] = binary_error(step, i);
        if (v[i] != 0 || out[i] != 0) out[i] += rounding(v[i], kRoundings);
      }
      break;
    case ExprOp::kMin:
    case ExprOp::kMax:
      for (int i = 0; i < n; ++i) out[i] = binary_error(step, i);
      return;
    case ExprOp::kPow:
      for (int i = 0; i < n; ++i) {
        out[i] = binary_error(step, i) + rounding(v[i], kFunctionRoundings);
      }
      break;
    default: {
      const ExprOpRow& f = row_of(step.op);
      const bool exact = f.rounding == Rounding::kNone;
      const double roundings =
          f.rounding == Rounding::kFunction ? kFunctionRoundings : kRoundings;
      for (int i = 0; i < n; ++i) {
        out[i] = unary_error(f, floats(step.a)[i], errors(step.a)[i], v[i], arithmetic);
        if (!exact) out[i] += rounding(v[i], roundings);
      }
      if (exact) return;
    }
  }
  for (int i = 0; i < n; ++i) {
    if (std::fabs(v[i]) + out[i] <= arithmetic.largest) continue;
    if (step.op == ExprOp::kAdd || step.op == ExprOp::kSub || step.op == ExprOp::kMul) {
      const bool finite = std::isfinite(floats(step.a)[i]) && std::isfinite(floats(step.b)[i]);
      if (!finite || !std::isfinite(out[i])) out[i] = binary_error(step, i);
    }
    if (std::isinf(out[i]) || std::isnan(v[i]) || std::isinf(v[i])) {
      if (std::fabs(v[i]) >= arithmetic.beyond) v[i] *= INFINITY;
      continue;
    }
    const double size = std::fabs(v[i]);
    out[i] = size - out[i] > 4 * arithmetic.largest ? 0 : kOpen;
    if (size >= arithmetic.beyond) v[i] *= INFINITY;
  }
}

// Integers that come from floats: within `error` of the value, or anything where it is infinite.
void Engine::run_integer_errors(const Step& step, int n) {
  double* out = errors(step.dst);
  const int64_t* v = ints(step.dst);
  const IntegerRange range = integer_range(step.type);
  for (int i = 0; i < n; ++i) {
    double e = 0;
    const auto error = [&](int slot) { return slot < 0 ? 0 : errors(slot)[i]; };
    const double ea = error(step.a), eb = error(step.b);
    const auto size = [&](int slot) { return std::fabs(static_cast<double>(ints(slot)[i])); };
    if (step.op == ExprOp::kSelect) {
      e = ints(step.a)[i] ? eb : error(step.c);
      if (ea != 0) {
        e = std::max(eb, error(step.c)) +
            std::fabs(static_cast<double>(ints(step.b)[i]) - static_cast<double>(ints(step.c)[i]));
      }
    } else if (step.op == ExprOp::kAxis) {
      for (const auto& [slot, factor] : step.terms)
        e += error(slot) * std::fabs(static_cast<double>(factor));
    } else if (ea == 0 && eb == 0) {
      e = 0;
    } else if (is_float(step.from)) {
      const double x = floats(step.a)[i];
      if (step.op == ExprOp::kCast && step.type != Type::kBool) {
        e = farther(static_cast<double>(v[i]), static_cast<double>(float_to_int(step.type, x - ea)),
                    static_cast<double>(float_to_int(step.type, x + ea)));
        if (!std::isfinite(ea)) e = kOpen;
      } else {
        const double y = step.op == ExprOp::kCast ? 0 : floats(step.b)[i];
        e = !(std::fabs(x - y) > ea + eb) && !std::isnan(x) && !std::isnan(y) ? 1 : 0;
        if (!std::isfinite(ea) || !std::isfinite(eb)) e = 1;
      }
    } else if (step.type == Type::kBool && !is_comparison(step.op)) {
      // and, or, not: certain where one side decides.
      const bool a = ints(step.a)[i] != 0, b = step.b >= 0 && ints(step.b)[i] != 0;
      const bool decided = (step.op == ExprOp::kAnd && ((ea == 0 && !a) || (eb == 0 && !b))) ||
                           (step.op == ExprOp::kOr && ((ea == 0 && a) || (eb == 0 && b)));
      e = decided ? 0 : 1;
    } else if (is_comparison(step.op)) {
      const double apart =
          std::fabs(static_cast<double>(ints(step.a)[i]) - static_cast<double>(ints(step.b)[i]));
      e = apart > ea + eb ? 0 : 1;
    } else {
      switch (step.op) {
        case ExprOp::kAdd:
        case ExprOp::kSub:
        case ExprOp::kCast:
        case ExprOp::kNeg:
        case ExprOp::kAbs: e = ea + eb; break;
        case ExprOp::kMul: e = size(step.a) * eb + size(step.b) * ea + ea * eb; break;
        case ExprOp::kMin:
        case ExprOp::kMax: e = std::max(ea, eb); break;
        case ExprOp::kDiv: e = eb == 0 && size(step.b) > 0 ? ea / size(step.b) + 1 : kOpen; break;
        case ExprOp::kMod: e = eb == 0 ? size(step.b) : kOpen; break;
        default: e = kOpen;
      }
    }
    // What wraps can be anywhere.
    const double value = static_cast<double>(v[i]);
    if (e != 0 && step.type != Type::kBool &&
        (value + e > static_cast<double>(range.hi) || value - e < static_cast<double>(range.lo))) {
      e = kOpen;
    }
    out[i] = std::isnan(e) ? kOpen : e;
  }
}

// On top of the errors of what was read: those of the place that was read from.
void Engine::load_errors(const Step& step, const Load& load, const int64_t* addresses, int n) {
  double* out = errors(step.dst);
  if (load.fill >= 0) {
    for (int i = 0; i < n; ++i) {
      if (!in_bounds_[static_cast<size_t>(i)]) out[i] = errors(load.fill)[i];
    }
  } else if (!load.safe) {
    // A side that was not chosen, and was not read: should it have been, anything may be there.
    for (int i = 0; i < n; ++i) {
      if (!in_bounds_[static_cast<size_t>(i)]) out[i] = kOpen;
    }
  }
  const auto misplaced = [&](int slot) {
    if (slot < 0 || !uncertain_[static_cast<size_t>(slot)]) return;
    for (int i = 0; i < n; ++i) {
      if (errors(slot)[i] != 0) out[i] = kOpen;
    }
  };
  misplaced(load.address);
  for (int slot : load.indices) misplaced(slot);
  const double flushed = flushed_below(step.type);
  for (int i = 0; i < n && flushed != 0; ++i) {
    const double size = std::fabs(floats(step.dst)[i]);
    if (size < flushed) out[i] += size;
  }
}

void Engine::accumulate_errors(int first, int n, Element* into) {
  const double* e = errors(result_) + first;
  const Reduce reduce = tensor_.reduce;
  if (!is_float(tensor_.type)) {
    if (!uncertain_[static_cast<size_t>(result_)]) return;
    for (int i = 0; i < n; ++i) {
      if (reduce == Reduce::kMax || reduce == Reduce::kMin) {
        into->error = std::max(into->error, e[i]);
      } else {
        into->error += reduce == Reduce::kProd && e[i] != 0 ? kOpen : e[i];
      }
    }
    return;
  }
  const double* v = floats(result_) + first;
  switch (reduce) {
    case Reduce::kNone: into->error = e[0]; return;
    case Reduce::kSum: {
      double errors[4] = {}, scales[4] = {};
      bool whole = true, finite = true;
      for (int i = 0; i < n; ++i) {
        errors[i & 3] += e[i];
        scales[i & 3] += std::fabs(v[i]);
        whole &= is_whole(v[i]);
        finite &= std::isfinite(v[i]);
      }
      into->finite = into->finite && finite;
      into->error += (errors[0] + errors[1]) + (errors[2] + errors[3]);
      into->scale += (scales[0] + scales[1]) + (scales[2] + scales[3]);
      into->whole = into->whole && whole;
      return;
    }
    case Reduce::kProd: {
      const double unit = arithmetic_of(tensor_.type).unit;
      double product = into->number;
      for (int i = 0; i < n; ++i) {
        const double next = product * v[i];
        into->error = into->error * std::fabs(v[i]) + std::fabs(product) * e[i] +
                      into->error * e[i];
        into->whole = into->whole && e[i] == 0 && is_whole(next);
        if (!into->whole) into->error += kRoundings * unit * std::fabs(next);
        into->scale *= std::max(1.0, std::fabs(v[i]));
        product = next;
      }
      if (std::isnan(into->error)) into->error = kOpen;
      return;
    }
    default: break;
  }
  double best = into->number;
  for (int i = 0; i < n; ++i) {
    const bool max = reduce == Reduce::kMax;
    into->error = extremum_error(max, best, v[i], into->error, e[i]);
    best = apply_float(max ? ExprOp::kMax : ExprOp::kMin, v[i], best);
  }
}

// The rounding of the reduction, and of the store.
void Engine::finish_errors(Element* element) const {
  double& e = element->error;
  const double v = element->number;
  if (!is_float(tensor_.type)) {
    const double value = static_cast<double>(element->integer);
    const IntegerRange range = integer_range(tensor_.type);
    if (e != 0 && tensor_.type != Type::kBool &&
        (value + e > static_cast<double>(range.hi) || value - e < static_cast<double>(range.lo))) {
      e = kOpen;
    }
    return;
  }
  const Arithmetic& arithmetic = arithmetic_of(tensor_.type);
  const double tiny = tensor_.type == Type::kF64 ? arithmetic.tiny : tiny_;
  if (tensor_.reduce == Reduce::kSum) {
    const bool exact =
        e == 0 && element->whole && element->scale * arithmetic.unit < 1;
    const double error_of_terms = e;
    if (!exact) e += kSumRoundings * arithmetic.unit * std::sqrt(terms_) * element->scale + tiny;
    if (!std::isfinite(v)) {
      // From exact infinities, not by overflow; two products that overflowed need not meet as such,
      // and one by the zero of a `pad` or `where` may be left out.
      const bool product = std::isnan(v) && product_[static_cast<size_t>(result_)];
      e = element->finite || product || !std::isfinite(error_of_terms) ? kOpen : 0;
    } else if (element->scale > arithmetic.largest) {
      const bool one_way = std::fabs(v) > 0.99 * element->scale;
      e = one_way && std::fabs(v) > 4 * arithmetic.largest ? 0 : kOpen;
    }
  } else if (tensor_.reduce == Reduce::kProd) {
    if (!element->whole) e += tiny * element->scale;
    if (!std::isfinite(v) || element->scale > arithmetic.largest) e = kOpen;
  }
  if (std::isnan(e)) e = kOpen;
  const double rounded = round_to(tensor_.type, v);
  if (!std::isfinite(e) || std::isnan(v)) return;
  if (std::isinf(rounded)) {
    // Infinite for certain when all of the ball is.
    if (e != 0 && !std::isinf(round_to(tensor_.type, std::fabs(v) - e))) e = kOpen;
    return;
  }
  // A temporary may stay unrounded.
  const double unrounded = e + std::fabs(v - rounded);
  e = std::max(unrounded,
               farther(rounded, round_to(tensor_.type, v - e), round_to(tensor_.type, v + e)));
  const double flushed = flushed_below(tensor_.type);
  if (std::fabs(rounded) < flushed && rounded != 0) e += flushed;
}

}  // namespace lw
