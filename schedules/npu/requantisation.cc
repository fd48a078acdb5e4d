#include "schedules/npu/requantisation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace lw {
namespace {

double value_of(const Expr& e) {
  return is_float(e->type) ? e->number : static_cast<double>(e->integer);
}

struct Bounds {
  double lo = -std::numeric_limits<double>::infinity();
  double hi = std::numeric_limits<double>::infinity();
};

// What is below maxima and minima with constants, and where they leave its values.
Bounds take_bounds(Expr& e) {
  std::vector<std::pair<ExprOp, double>> limits;
  while (e->op == ExprOp::kMin || e->op == ExprOp::kMax) {
    const size_t constant = is_const(e->args[0]) ? 0 : 1;
    if (!is_const(e->args[constant])) break;
    limits.emplace_back(e->op, value_of(e->args[constant]));
    const Expr below = e->args[1 - constant];
    e = below;
  }
  Bounds bounds;
  for (auto limit = limits.rbegin(); limit != limits.rend(); ++limit) {
    const auto apply = [&](double x) {
      return limit->first == ExprOp::kMin ? std::min(x, limit->second) : std::max(x, limit->second);
    };
    bounds = {apply(bounds.lo), apply(bounds.hi)};
  }
  return bounds;
}

// Whole numbers that the cast leaves; false: none.
bool set_bounds(const Bounds& bounds, Requantisation* found) {
  if (!(bounds.lo <= bounds.hi)) return false;
  found->lo = static_cast<int8_t>(std::clamp(std::trunc(bounds.lo), -128.0, 127.0));
  found->hi = static_cast<int8_t>(std::clamp(std::trunc(bounds.hi), -128.0, 127.0));
  return true;
}

bool take_zero(Expr& e, Requantisation* found) {
  if (e->op != ExprOp::kAdd && e->op != ExprOp::kSub) return true;
  const size_t constant = e->op == ExprOp::kAdd && is_const(e->args[0]) ? 0 : 1;
  if (!is_const(e->args[constant])) return false;
  const double value = value_of(e->args[constant]) * (e->op == ExprOp::kSub ? -1 : 1);
  if (value != std::floor(value) || value < -128 || value > 127) return false;
  found->zero = static_cast<int8_t>(value);
  const Expr rest = e->args[1 - constant];
  e = rest;
  return true;
}

bool is_sums(const Expr& e) {
  return e->op == ExprOp::kCast && e->type == Type::kF32 && e->args[0]->type == Type::kI32;
}

bool take_scale(Expr& e, Requantisation* found) {
  if (e->op == ExprOp::kMul) {
    const size_t sums = is_sums(e->args[0]) ? 0 : 1;
    const Expr& scale = e->args[1 - sums];
    if (is_const(scale)) found->factor = value_of(scale);
    else if (scale->op == ExprOp::kRead) found->scale = scale.get();
    else return false;
    const Expr rest = e->args[sums];
    e = rest;
  }
  if (!is_sums(e)) return false;
  found->sums = e->args[0];
  return true;
}

}  // namespace

std::optional<Requantisation> requantisation(const Expr& e) {
  if (e->op != ExprOp::kCast || e->type != Type::kI8) return std::nullopt;
  Requantisation found;
  Expr inner = e->args[0];
  const Bounds bounds = take_bounds(inner);
  if (!set_bounds(bounds, &found)) return std::nullopt;
  if (inner->type == Type::kI32) {
    if (bounds.lo < -128 || bounds.hi > 127) return std::nullopt;  // a cast of integers wraps
    found.sums = inner;
    return found;
  }
  if (inner->type != Type::kF32 || !take_zero(inner, &found)) return std::nullopt;
  if (inner->op != ExprOp::kRound) return std::nullopt;
  const Expr rounded = inner->args[0];
  inner = rounded;
  if (!take_scale(inner, &found)) return std::nullopt;
  return found;
}

}  // namespace lw
