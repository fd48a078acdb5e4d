#include "src/expr/elaboration/literal.h"

#include <cmath>

#include "src/base/message.h"
#include "src/expr/elaboration/names.h"
#include "src/expr/language/print.h"
#include "src/expr/scalar.h"

namespace lw {
namespace {

std::optional<int64_t> integer_operation(const Node& node, int64_t a, int64_t b,
                                         Diagnostics* diagnostics) {
  int64_t result = 0;
  bool overflow = false;
  switch (node.op) {
    case ExprOp::kAdd: overflow = __builtin_add_overflow(a, b, &result); break;
    case ExprOp::kSub: overflow = __builtin_sub_overflow(a, b, &result); break;
    case ExprOp::kMul: overflow = __builtin_mul_overflow(a, b, &result); break;
    case ExprOp::kNeg: overflow = __builtin_sub_overflow(int64_t{0}, a, &result); break;
    case ExprOp::kAbs: overflow = a == INT64_MIN; result = a < 0 && !overflow ? -a : a; break;
    case ExprOp::kMin: result = std::min(a, b); break;
    case ExprOp::kMax: result = std::max(a, b); break;
    case ExprOp::kDiv:
    case ExprOp::kMod:
      if (b == 0) {
        diagnostics->error(node.position, "a division of constants by zero");
        return std::nullopt;
      }
      overflow = a == INT64_MIN && b == -1;
      result = node.op == ExprOp::kDiv ? floor_div(a, b) : floor_mod(a, b);
      break;
    default:
      diagnostics->error(node.position,
                          concat("'", op_name(node.op), "' does not give an integer"));
      return std::nullopt;
  }
  if (!overflow) return result;
  diagnostics->error(node.position, "this integer overflows 64 bits");
  return std::nullopt;
}

}  // namespace

bool is_literal(const Names& names, const Node& node) {
  if (node.kind == NodeKind::kNumber) return true;
  if (node.kind == NodeKind::kName) {
    const Symbol* symbol = names.find(node.name);
    if (symbol == nullptr || names.find_axis(node.name) >= 0) return false;
    return symbol->kind == Symbol::kInteger || symbol->kind == Symbol::kFloat;
  }
  if (node.kind != NodeKind::kUnary && node.kind != NodeKind::kBinary &&
      node.kind != NodeKind::kCall && node.kind != NodeKind::kClamp) {
    return false;
  }
  for (const NodePtr& arg : node.args) {
    if (!is_literal(names, *arg)) return false;
  }
  return true;
}

std::optional<int64_t> constant_integer(const Names& names, const Node& node,
                                        std::string_view what) {
  auto refuse = [&](std::string_view why, std::string_view hint = "") -> std::optional<int64_t> {
    names.diagnostics()->error(node.position, concat(what, " is an integer; ", why), hint);
    return std::nullopt;
  };
  switch (node.kind) {
    case NodeKind::kNumber:
      if (!node.is_integer) return refuse("this number is none");
      return node.integer;
    case NodeKind::kName: {
      if (names.find_axis(node.name) >= 0) return refuse(concat("'", node.name, "' is an axis"));
      const Symbol* symbol = names.find(node.name);
      if (symbol == nullptr) {
        names.report_unknown(node, false);
        return std::nullopt;
      }
      if (symbol->kind == Symbol::kInteger) return symbol->literal.integer;
      if (symbol->kind == Symbol::kBroken) return std::nullopt;
      return refuse(concat("'", node.name, "' is none"));
    }
    case NodeKind::kUnary:
    case NodeKind::kBinary:
    case NodeKind::kCall: {
      std::optional<int64_t> a = constant_integer(names, *node.args[0], what);
      std::optional<int64_t> b =
          node.args.size() > 1 ? constant_integer(names, *node.args[1], what) : 0;
      return a && b ? integer_operation(node, *a, *b, names.diagnostics()) : std::nullopt;
    }
    case NodeKind::kClamp: {
      std::optional<int64_t> x = constant_integer(names, *node.args[0], what);
      std::optional<int64_t> lo = constant_integer(names, *node.args[1], what);
      std::optional<int64_t> hi = constant_integer(names, *node.args[2], what);
      if (!x || !lo || !hi) return std::nullopt;
      return std::min(std::max(*x, *lo), *hi);
    }
    default: return refuse("this expression is not constant");
  }
}

std::optional<Literal> fold(ExprOp op, const Literal& a, const Literal* b) {
  if (is_comparison(op) || domain_of(op) == Domain::kBool) return std::nullopt;
  Literal result;
  const bool exact = a.exact && (!b || b->exact);
  switch (op) {
    case ExprOp::kMod:
      result.number = a.number - std::floor(a.number / b->number) * b->number;
      break;
    default: result.number = b ? apply_float(op, a.number, b->number) : apply_float(op, a.number);
  }
  // An integer result is kept exactly beyond 2^53 too.
  bool overflow = !exact;
  if (exact) {
    switch (op) {
      case ExprOp::kAdd:
        overflow = __builtin_add_overflow(a.integer, b->integer, &result.integer);
        break;
      case ExprOp::kSub:
        overflow = __builtin_sub_overflow(a.integer, b->integer, &result.integer);
        break;
      case ExprOp::kMul:
        overflow = __builtin_mul_overflow(a.integer, b->integer, &result.integer);
        break;
      case ExprOp::kNeg:
        overflow = __builtin_sub_overflow(int64_t{0}, a.integer, &result.integer);
        break;
      default: overflow = true;
    }
  }
  result.exact = !overflow;
  if (!result.exact && std::fabs(result.number) < 0x1p53 &&
      std::floor(result.number) == result.number) {
    result.exact = true;
    result.integer = static_cast<int64_t>(result.number);
  }
  return result;
}

Expr literal_as(const Node& node, const Literal& literal, Type type, Diagnostics* diagnostics) {
  if (std::isnan(literal.number)) {
    diagnostics->error(node.position, "this literal is not a number");
    return make_int(type, 0);
  }
  if (is_float(type)) return make_const(type, literal.number);
  const IntegerRange range = integer_range(type);
  const std::string shown = print_number(Type::kF64, literal.number);
  if (type == Type::kBool) {
    diagnostics->error(node.position, concat(shown, " is no bool"), "write true or false");
  } else if (!literal.exact) {
    diagnostics->error(node.position, concat("the literal ", shown, " is no ", type_name(type)),
                        "literals in values are folded in f64: 1 / 2 is 0.5; floor(1 / 2) is 0");
  } else if (literal.integer < range.lo || literal.integer > range.hi) {
    diagnostics->error(node.position, concat(literal.integer, " is out of range for ",
                                             type_name(type)));
  } else {
    return make_int(type, literal.integer);
  }
  return make_int(type, 0);
}

}  // namespace lw
