#include "src/peers/match/access.h"

#include <cmath>
#include <limits>

#include "schedules/access.h"
#include "src/expr/scalar.h"

namespace lw {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

double unary_value(ExprOp op, double a) {
  if (op == ExprOp::kNot) return a == 0;
  return is_unary(op) ? apply_float(op, a) : kUnknown;
}

double binary_value(ExprOp op, double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return kUnknown;  // comparisons would swallow it
  switch (op) {
    case ExprOp::kAdd: return a + b;
    case ExprOp::kSub: return a - b;
    case ExprOp::kMul: return a * b;
    case ExprOp::kDiv: return a / b;
    case ExprOp::kMin: return b < a ? b : a;
    case ExprOp::kMax: return a < b ? b : a;
    case ExprOp::kPow: return std::pow(a, b);
    case ExprOp::kAnd: return a != 0 && b != 0;
    case ExprOp::kOr: return a != 0 || b != 0;
    case ExprOp::kEq: return a == b;
    case ExprOp::kNe: return a != b;
    case ExprOp::kLt: return a < b;
    case ExprOp::kLe: return a <= b;
    case ExprOp::kGt: return a > b;
    case ExprOp::kGe: return a >= b;
    default: return kUnknown;
  }
}

Expr without_casts(Expr expr) {
  while (expr->op == ExprOp::kCast) expr = expr->args[0];
  return expr;
}

bool is_access(const Expr& expr) {
  return expr->op == ExprOp::kRead || expr->op == ExprOp::kPad || expr->op == ExprOp::kSelect;
}

}  // namespace

std::optional<LinearRead> linear_read(const Program& program, const ExprNode& read,
                                      int axis_count) {
  LinearRead result;
  result.tensor = read.index;
  result.strides.assign(axis_count, 0);
  const std::vector<int64_t>& shape = program.tensors[read.index].shape;
  int64_t stride = 1;
  for (int d = static_cast<int>(shape.size()) - 1; d >= 0; --d) {
    const IndexForm index = index_form(read.args[d]);
    if (!index.affine) return std::nullopt;
    result.offset += stride * index.constant;
    for (const IndexForm::Term& term : index.terms)
      result.strides[term.axis] += stride * term.factor;
    stride *= shape[d];
  }
  return result;
}

std::vector<int> bare_axes(const ExprNode& read) {
  std::vector<int> axes;
  for (const Expr& index : read.args)
    axes.push_back(index->op == ExprOp::kAxis ? index->index : -1);
  return axes;
}

double evaluate(const Expr& expr, const std::function<double(int tensor)>& value) {
  switch (expr->op) {
    case ExprOp::kConst:
      return is_float(expr->type) ? expr->number : static_cast<double>(expr->integer);
    case ExprOp::kRead:
      return value(expr->index);
    case ExprOp::kSelect: {
      const double condition = evaluate(expr->args[0], value);
      if (std::isnan(condition)) return kUnknown;
      return evaluate(expr->args[condition != 0 ? 1 : 2], value);
    }
    case ExprOp::kCast:
      if (!is_float(expr->type)) return kUnknown;
      return evaluate(expr->args[0], value);
    default:
      if (is_unary(expr->op)) return unary_value(expr->op, evaluate(expr->args[0], value));
      if (!is_binary(expr->op)) return kUnknown;
      return binary_value(expr->op, evaluate(expr->args[0], value),
                          evaluate(expr->args[1], value));
  }
}

Product product_of_reads(const Expr& expr) {
  Expr body = without_casts(expr), condition;
  if (body->op == ExprOp::kSelect) {
    const Expr& otherwise = body->args[2];
    if (otherwise->op != ExprOp::kConst || otherwise->number != 0 || otherwise->integer != 0)
      return {};
    condition = body->args[0];
    body = without_casts(body->args[1]);
  }
  if (body->op != ExprOp::kMul) return {};
  const Expr left = without_casts(body->args[0]), right = without_casts(body->args[1]);
  if (!is_access(left) || !is_access(right)) return {};
  return {left, right, condition};
}

std::vector<int64_t> dense_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (int d = static_cast<int>(shape.size()) - 2; d >= 0; --d)
    strides[d] = strides[d + 1] * shape[d + 1];
  return strides;
}

int argument_of(const Program& program, int tensor) {
  const std::vector<int> all = arguments(program);
  for (size_t n = 0; n < all.size(); ++n)
    if (all[n] == tensor) return static_cast<int>(n);
  return -1;
}

}  // namespace lw
