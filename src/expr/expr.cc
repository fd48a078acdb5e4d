// The nodes' properties and constructors. Constructors fold constants, so every later stage
// sees `y + 0 - 0` as `y`, whichever front end built it.
#include "src/expr/expr.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "src/base/check.h"
#include "src/expr/element.h"
#include "src/expr/scalar.h"

namespace lw {
namespace {

Expr node(ExprOp op, Type type, std::vector<Expr> args, int index = -1) {
  ExprNode result{op, type, index, 0, 0, std::move(args)};
  return std::make_shared<const ExprNode>(std::move(result));
}

bool is_value(const Expr& e, double value) {
  if (!is_const(e)) return false;
  return is_float(e->type) ? e->number == value : static_cast<double>(e->integer) == value;
}

Expr make_float(Type type, double value) {
  ExprNode result{ExprOp::kConst, type, -1, 0, round_to(type, value), {}};
  return std::make_shared<const ExprNode>(std::move(result));
}

// x+0, x*1 and the like; null when none applies.
Expr simplify(ExprOp op, const Expr& a, const Expr& b) {
  const bool integer = !is_float(a->type);
  switch (op) {
    case ExprOp::kAdd: return is_value(b, 0) ? a : is_value(a, 0) ? b : nullptr;
    case ExprOp::kSub: return is_value(b, 0) ? a : nullptr;
    case ExprOp::kMul:
      if (is_value(b, 1)) return a;
      if (is_value(a, 1)) return b;
      if (integer && is_value(b, 0)) return b;
      return integer && is_value(a, 0) ? a : nullptr;
    case ExprOp::kDiv: return is_value(b, 1) ? a : nullptr;
    case ExprOp::kMod: return is_value(b, 1) ? make_int(a->type, 0) : nullptr;
    case ExprOp::kAnd:
      if (is_const(a)) return a->integer ? b : a;
      return is_const(b) ? (b->integer ? a : b) : nullptr;
    case ExprOp::kOr:
      if (is_const(a)) return a->integer ? a : b;
      return is_const(b) ? (b->integer ? b : a) : nullptr;
    default: return nullptr;
  }
}

}  // namespace

bool is_comparison(ExprOp op) { return op >= ExprOp::kEq && op <= ExprOp::kGe; }
bool accepts(Domain domain, Type type) {
  switch (domain) {
    case Domain::kAny: return true;
    case Domain::kBool: return type == Type::kBool;
    case Domain::kFloat: return is_float(type);
    case Domain::kInteger: return !is_float(type) && type != Type::kBool;
    case Domain::kNumber: return type != Type::kBool;
  }
  return false;
}

Expr make_int(Type type, int64_t value) {
  if (is_float(type)) return make_float(type, static_cast<double>(value));
  ExprNode result{ExprOp::kConst, type, -1, wrap(type, value), 0, {}};
  return std::make_shared<const ExprNode>(std::move(result));
}

Expr make_const(Type type, double value) {
  return is_float(type) ? make_float(type, value) : make_int(type, float_to_int(type, value));
}

Expr make_axis(int axis) { return node(ExprOp::kAxis, Type::kI64, {}, axis); }

Expr make_read(int tensor, Type type, std::vector<Expr> indices) {
  for (const Expr& index : indices) CHECK(index->type == Type::kI64);
  return node(ExprOp::kRead, type, std::move(indices), tensor);
}

Expr make_pad(Expr read, Expr fill) {
  CHECK(read->op == ExprOp::kRead && read->type == fill->type);
  Type type = read->type;
  return node(ExprOp::kPad, type, {std::move(read), std::move(fill)});
}

Expr make_select(Expr condition, Expr then_value, Expr else_value) {
  CHECK(condition->type == Type::kBool && then_value->type == else_value->type);
  if (is_const(condition)) return condition->integer ? then_value : else_value;
  Type type = then_value->type;
  return node(ExprOp::kSelect, type,
              {std::move(condition), std::move(then_value), std::move(else_value)});
}

Expr make_cast(Type type, Expr value) {
  if (value->type == type) return value;
  if (is_const(value)) {
    if (is_float(value->type)) return make_const(type, value->number);
    return make_int(type, value->integer);
  }
  return node(ExprOp::kCast, type, {std::move(value)});
}

Expr make_binary(ExprOp op, Expr a, Expr b) {
  CHECK(is_binary(op) && a->type == b->type && accepts(domain_of(op), a->type));
  const Type type = a->type;
  const bool gives_bool = is_comparison(op);
  if (is_const(a) && is_const(b)) {
    if (!is_float(type)) return make_int(gives_bool ? Type::kBool : type,
                                         apply_int(op, type, a->integer, b->integer));
    if (gives_bool) return make_int(Type::kBool, compare(op, a->number, b->number));
    // A NaN stays an operation: no constant is one, so every constant can be written and compared.
    const double value = apply_float(op, a->number, b->number);
    if (!std::isnan(value)) return make_float(type, value);
  }
  if (Expr simpler = simplify(op, a, b)) return simpler;
  return node(op, gives_bool ? Type::kBool : type, {std::move(a), std::move(b)});
}

Expr make_unary(ExprOp op, Expr a) {
  CHECK(is_unary(op) && accepts(domain_of(op), a->type));
  if (is_const(a)) {
    if (!is_float(a->type)) return make_int(a->type, apply_int(op, a->type, a->integer));
    const double value = apply_float(op, a->number);
    if (!std::isnan(value)) return make_float(a->type, value);
  }
  Type type = a->type;
  return node(op, type, {std::move(a)});
}

bool reads_own_point(const ExprNode& read) {
  for (size_t d = 0; d < read.args.size(); ++d) {
    const ExprNode& index = *read.args[d];
    if (index.op != ExprOp::kAxis || index.index != static_cast<int>(d)) return false;
  }
  return true;
}

Expr with_args(const Expr& e, std::vector<Expr> args) {
  switch (e->op) {
    case ExprOp::kRead: return make_read(e->index, e->type, std::move(args));
    case ExprOp::kPad: return make_pad(args[0], args[1]);
    case ExprOp::kSelect: return make_select(args[0], args[1], args[2]);
    case ExprOp::kCast: return make_cast(e->type, args[0]);
    default:
      return is_binary(e->op) ? make_binary(e->op, args[0], args[1]) : make_unary(e->op, args[0]);
  }
}

namespace {

// `expr` with every leaf, and every read once its indices are done, replaced by `replace(node)`.
template <class Replace>
class Rewriter {
 public:
  explicit Rewriter(const Replace& replace) : replace_(replace) {}

  Expr run(const Expr& expr) {
    // Only what has several owners can be met again.
    if (expr.use_count() < 2) return rewritten(expr);
    if (auto known = done_.find(expr.get()); known != done_.end()) return known->second;
    Expr result = rewritten(expr);
    done_[expr.get()] = result;
    return result;
  }

 private:
  Expr rewritten(const Expr& expr) {
    std::vector<Expr> args;
    bool changed = false;
    for (const Expr& arg : expr->args) {
      args.push_back(run(arg));
      changed |= args.back() != arg;
    }
    const Expr done = changed ? with_args(expr, std::move(args)) : expr;
    // Not what folding left of it (0 + x): that has been replaced.
    const bool replaces = expr->op == ExprOp::kAxis || expr->op == ExprOp::kRead;
    return replaces ? replace_(done) : done;
  }

  const Replace& replace_;
  absl::flat_hash_map<const ExprNode*, Expr> done_;
};

}  // namespace

Expr substitute(const Expr& expr, const std::vector<Expr>& replacement) {
  const auto replace = [&](const Expr& e) {
    if (e->op != ExprOp::kAxis) return e;
    const size_t axis = static_cast<size_t>(e->index);
    return axis < replacement.size() && replacement[axis] ? replacement[axis] : e;
  };
  return Rewriter(replace).run(expr);
}

Expr renumber_reads(const Expr& expr, const std::vector<int>& position) {
  const auto replace = [&](const Expr& e) {
    if (e->op != ExprOp::kRead) return e;
    const int moved = position[static_cast<size_t>(e->index)];
    return moved == e->index ? e : make_read(moved, e->type, e->args);
  };
  return Rewriter(replace).run(expr);
}

int64_t elements(const Tensor& tensor) {
  int64_t count = 1;
  for (int64_t extent : tensor.shape) count *= extent;
  return count;
}

int64_t bytes(const Tensor& tensor) { return elements(tensor) * size_of(tensor.type); }

namespace {
std::vector<int> with_role(const Program& program, Role role) {
  std::vector<int> found;
  for (size_t i = 0; i < program.tensors.size(); ++i) {
    if (program.tensors[i].role == role) found.push_back(static_cast<int>(i));
  }
  return found;
}
}  // namespace

std::vector<int> inputs(const Program& program) { return with_role(program, Role::kInput); }
std::vector<int> outputs(const Program& program) { return with_role(program, Role::kOutput); }

std::vector<int> arguments(const Program& program) {
  std::vector<int> result = inputs(program);
  for (int tensor : outputs(program)) result.push_back(tensor);
  return result;
}

std::vector<int> reads_of(const Tensor& tensor) {
  std::vector<int> result;
  if (!tensor.body) return result;
  visit(tensor.body, [&](const ExprNode& e) {
    if (e.op != ExprOp::kRead) return;
    if (std::find(result.begin(), result.end(), e.index) == result.end()) result.push_back(e.index);
  });
  return result;
}

double identity_float(Reduce reduce) {
  switch (reduce) {
    case Reduce::kProd: return 1;
    case Reduce::kMax: return -std::numeric_limits<double>::infinity();
    case Reduce::kMin: return std::numeric_limits<double>::infinity();
    default: return 0;
  }
}

int64_t identity_int(Reduce reduce, Type type) {
  switch (reduce) {
    case Reduce::kProd: return 1;
    case Reduce::kMax: return integer_range(type).lo;
    case Reduce::kMin: return integer_range(type).hi;
    default: return 0;
  }
}

}  // namespace lw
