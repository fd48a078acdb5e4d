// Expressions to registers: arithmetic, conditions, sharing. Reads are in load.cc, integer
// expressions in index.cc.
#include "src/lower/evaluate.h"

#include <algorithm>

#include "src/base/check.h"

namespace lw::lowering {

bool reads_tensor(const Expr& expr) {
  bool found = false;
  visit(expr, [&](const ExprNode& e) { found = found || e.op == ExprOp::kRead; });
  return found;
}

// Bit per tensor axis that the expression depends on; the top bit: an overlaid read (depends on
// all).
uint64_t Evaluator::dependencies(const Expr& expr) {
  auto it = dependencies_.find(expr.get());
  if (it != dependencies_.end()) return it->second;
  uint64_t mask = 0;
  if (expr->op == ExprOp::kAxis) mask = uint64_t{1} << std::min(expr->index, 62);
  if (expr->op == ExprOp::kRead && overlay_.contains(expr->index)) mask = ~uint64_t{0};
  for (const Expr& arg : expr->args) mask |= dependencies(arg);
  dependencies_[expr.get()] = mask;
  return mask;
}

std::vector<int64_t> Evaluator::cache_key(const Expr& expr, const Point& point) {
  const uint64_t mask = dependencies(expr);
  std::vector<int64_t> key{reinterpret_cast<int64_t>(expr.get())};
  bool varies = false;
  for (size_t a = 0; a < point.key.size(); ++a) {
    if (!(mask >> std::min<size_t>(a, 62) & 1)) continue;
    key.push_back(point.key[a]);
    varies = varies || point.varies[a];
  }
  if (varies) key.push_back(point.chunk.lanes * 4096 + point.chunk.active);
  return key;
}

int Evaluator::varying_lanes(const Expr& expr, const Point& point) {
  const uint64_t mask = dependencies(expr);
  for (size_t a = 0; a < point.varies.size(); ++a) {
    if (point.varies[a] && (mask >> std::min<size_t>(a, 62) & 1)) return point.chunk.lanes;
  }
  return 1;
}

Value Evaluator::evaluate(const Expr& expr, const Point& point) {
  if (expr->op == ExprOp::kRead) {
    auto over = overlay_.find(expr->index);
    if (over != overlay_.end()) return over->second;
  }
  const std::vector<int64_t> key = cache_key(expr, point);
  auto it = cache_.find(key);
  if (it != cache_.end()) return it->second;
  const Value value = compute(expr, point);
  cache_[key] = value;
  return value;
}

Value Evaluator::immediate(Type type, double number, int64_t integer, int lanes) {
  Stmt stmt;
  stmt.op = Op::kImmediate;
  stmt.dst = e_.new_register(register_type(type), lanes);
  stmt.number = number;
  stmt.integer = integer;
  const int dst = stmt.dst;
  e_.emit(std::move(stmt));
  return {dst, lanes};
}

Value Evaluator::broadcast(Value value, int lanes) {
  if (value.lanes == lanes) return value;
  CHECK(lanes % value.lanes == 0);
  auto [it, fresh] = broadcasts_.try_emplace(std::make_pair(value.reg, lanes), -1);
  if (fresh) {
    Stmt stmt;
    stmt.op = Op::kBroadcast;
    stmt.srcs[0] = value.reg;
    stmt.dst = it->second = e_.new_register(type_of(value), lanes);
    e_.emit(std::move(stmt));
  }
  return {it->second, lanes};
}

Value Evaluator::unary(ExprOp op, Type type, Value a) {
  Stmt stmt;
  stmt.op = Op::kUnary;
  stmt.expr_op = op;
  stmt.srcs[0] = a.reg;
  stmt.dst = e_.new_register(register_type(type), a.lanes);
  const int dst = stmt.dst;
  e_.emit(std::move(stmt));
  return {dst, a.lanes};
}

Value Evaluator::binary(ExprOp op, Type type, Value a, Value b) {
  const int lanes = std::max(a.lanes, b.lanes);
  a = broadcast(a, lanes);
  b = broadcast(b, lanes);
  Stmt stmt;
  stmt.op = Op::kBinary;
  stmt.expr_op = op;
  stmt.dst = e_.new_register(register_type(type), lanes);
  stmt.srcs[0] = a.reg;
  stmt.srcs[1] = b.reg;
  const int dst = stmt.dst;
  e_.emit(std::move(stmt));
  return {dst, lanes};
}

Value Evaluator::cast(Type type, Value value) {
  return convert(register_type(type), value);
}

Value Evaluator::convert(Type type, Value value) {
  const Type from = type_of(value);
  if (from == type) return value;
  // What was only widened goes back as it was, bit for bit: rounding may take subnormals for zero.
  const auto narrow = narrow_.find(value.reg);
  if (narrow != narrow_.end() && type_of({narrow->second, value.lanes}) == type) {
    return {narrow->second, value.lanes};
  }
  Stmt stmt;
  stmt.op = Op::kCast;
  stmt.dst = e_.new_register(type, value.lanes);
  stmt.srcs[0] = value.reg;
  const int dst = stmt.dst;
  e_.emit(std::move(stmt));
  if (register_type(from) == type) narrow_[dst] = value.reg;
  return {dst, value.lanes};
}

Value Evaluator::select(Value condition, Value a, Value b) {
  const int lanes = std::max({condition.lanes, a.lanes, b.lanes});
  condition = broadcast(condition, lanes);
  a = broadcast(a, lanes);
  b = broadcast(b, lanes);
  Stmt stmt;
  stmt.op = Op::kSelect;
  stmt.dst = e_.new_register(type_of(a), lanes);
  stmt.srcs[0] = condition.reg;
  stmt.srcs[1] = a.reg;
  stmt.srcs[2] = b.reg;
  const int dst = stmt.dst;
  e_.emit(std::move(stmt));
  return {dst, lanes};
}

// One division for all lanes (and, hoisted, for all iterations): a * (1 / b) is within 1.5 ulp of a
// / b, except that a divisor below the reciprocal of the largest number counts as zero.
Value Evaluator::reciprocal(Value b) {
  auto [it, fresh] = reciprocals_.try_emplace(b.reg, -1);
  if (fresh) it->second = binary(ExprOp::kDiv, type_of(b), immediate(type_of(b), 1, 1, 1), b).reg;
  return {it->second, 1};
}

Value Evaluator::compute(const Expr& expr, const Point& point) {
  switch (expr->op) {
    case ExprOp::kConst:
      return immediate(expr->type, expr->number, expr->integer, 1);
    case ExprOp::kAxis: {
      const Index value = index(expr, point);
      const int lanes = value.uniform() ? 1 : point.chunk.lanes;
      return {materialize(value, Type::kI64, lanes), lanes};
    }
    case ExprOp::kRead:
      return read(expr, point, nullptr);
    case ExprOp::kPad: {
      Truth in_bounds;
      const Value value = read(expr->args[0], point, &in_bounds);
      if (in_bounds.known == true) return value;
      if (in_bounds.known == false) return evaluate(expr->args[1], point);
      return select(in_bounds.value, value, cast(expr->type, evaluate(expr->args[1], point)));
    }
    case ExprOp::kSelect: {
      const Truth truth = condition(expr->args[0], point);
      if (truth.known) return evaluate(expr->args[*truth.known ? 1 : 2], point);
      const Value a = evaluate(expr->args[1], point);
      return select(truth.value, a, evaluate(expr->args[2], point));
    }
    case ExprOp::kCast: {
      if (expr->args[0]->type == Type::kI64 && is_float(expr->type) == false) {
        // Axes as values: known exactly as an index.
        if (expr->args[0]->op == ExprOp::kAxis) {
          const Index value = index(expr->args[0], point);
          const int lanes = value.uniform() ? 1 : point.chunk.lanes;
          return {materialize(value, expr->type, lanes), lanes};
        }
      }
      Value value = evaluate(expr->args[0], point);
      // A cast between two types that registers hold alike (f32 to bf16) still rounds.
      if (expr->type == Type::kF16 || expr->type == Type::kBF16) {
        return cast(Type::kF32, convert(expr->type, value));
      }
      return cast(expr->type, value);
    }
    default: break;
  }
  if (expr->type == Type::kBool) {
    const Truth truth = condition(expr, point);
    return truth.known ? immediate(Type::kBool, *truth.known, *truth.known, 1) : truth.value;
  }
  if (is_binary(expr->op)) {
    const Value a = evaluate(expr->args[0], point);
    const Value b = evaluate(expr->args[1], point);
    if (expr->op == ExprOp::kDiv && is_float(expr->type) && a.lanes > 1 && b.lanes == 1) {
      return binary(ExprOp::kMul, expr->type, a, reciprocal(b));
    }
    return binary(expr->op, expr->type, a, b);
  }
  CHECK(is_unary(expr->op));
  return unary(expr->op, expr->type, evaluate(expr->args[0], point));
}

Evaluator::Truth Evaluator::both(Truth a, Truth b) {
  if (a.known == false || b.known == false) return {false, {}};
  if (a.known == true) return b;
  if (b.known == true) return a;
  return {std::nullopt, binary(ExprOp::kAnd, Type::kBool, a.value, b.value)};
}

Evaluator::Truth Evaluator::at_least_zero(const Index& i, const Point& point) {
  if (i.range.lo >= 0) return {true, {}};
  if (i.range.hi < 0) return {false, {}};
  // Of all lanes, also those past the chunk's end.
  const Affine least = i.lane < 0 ? i.base + affine(i.lane * (point.chunk.lanes - 1)) : i.base;
  if (i.terms.empty() && known_at_least_zero(e_, least)) return {true, {}};
  const int lanes = i.uniform() ? 1 : point.chunk.lanes;
  if (i.terms.empty()) {
    Stmt stmt;
    stmt.op = Op::kLaneMask;
    stmt.dst = e_.new_register(Type::kBool, lanes);
    stmt.index = i.base;
    stmt.stride = lanes > 1 ? i.lane : 0;
    const int dst = stmt.dst;
    e_.emit(std::move(stmt));
    return {std::nullopt, {dst, lanes}};
  }
  const Value value{vector_index(i, lanes), lanes};
  return {std::nullopt,
          binary(ExprOp::kGe, Type::kBool, value, immediate(Type::kI64, 0, 0, lanes))};
}

Evaluator::Truth Evaluator::condition(const Expr& expr, const Point& point) {
  // Only what has several owners is asked for again at a point.
  if (expr.use_count() < 2 || expr->args.empty()) return decide(expr, point);
  std::vector<int64_t> key = cache_key(expr, point);
  if (auto known = truths_.find(key); known != truths_.end()) return known->second;
  const Truth truth = decide(expr, point);
  truths_[std::move(key)] = truth;
  return truth;
}

// Comparisons of index expressions are decided from the ranges of the loop variables where that is
// possible: inside a tensor no check of its padding remains.
Evaluator::Truth Evaluator::decide(const Expr& expr, const Point& point) {
  const std::vector<Expr>& args = expr->args;
  switch (expr->op) {
    case ExprOp::kConst: return {expr->integer != 0, {}};
    case ExprOp::kAnd: {
      const Truth a = condition(args[0], point);
      if (a.known == false) return a;
      return both(a, condition(args[1], point));
    }
    case ExprOp::kOr: {
      const Truth a = condition(args[0], point);
      if (a.known == true) return a;
      const Truth b = condition(args[1], point);
      if (b.known == true || a.known == false) return b;
      if (b.known == false) return a;
      return {std::nullopt, binary(ExprOp::kOr, Type::kBool, a.value, b.value)};
    }
    case ExprOp::kNot: {
      const Truth a = condition(args[0], point);
      if (a.known) return {!*a.known, {}};
      return {std::nullopt, unary(ExprOp::kNot, Type::kBool, a.value)};
    }
    case ExprOp::kEq: case ExprOp::kNe: case ExprOp::kLt:
    case ExprOp::kLe: case ExprOp::kGt: case ExprOp::kGe: break;
    default: return {std::nullopt, evaluate(expr, point)};
  }
  // Differences of addresses do not overflow, those of data may.
  if (args[0]->type != Type::kI64 || reads_tensor(args[0]) || reads_tensor(args[1])) {
    const Value a = evaluate(args[0], point);
    return {std::nullopt, binary(expr->op, Type::kBool, a, evaluate(args[1], point))};
  }
  const Index a = index(args[0], point), b = index(args[1], point);
  const Index one = make_index(e_, affine(1), 0, 1);
  switch (expr->op) {
    case ExprOp::kLt: return at_least_zero(add(add(b, a, -1), one, -1), point);
    case ExprOp::kLe: return at_least_zero(add(b, a, -1), point);
    case ExprOp::kGt: return at_least_zero(add(add(a, b, -1), one, -1), point);
    case ExprOp::kGe: return at_least_zero(add(a, b, -1), point);
    default: break;
  }
  const Truth equal =
      both(at_least_zero(add(a, b, -1), point), at_least_zero(add(b, a, -1), point));
  if (expr->op == ExprOp::kEq) return equal;
  if (equal.known) return {!*equal.known, {}};
  return {std::nullopt, unary(ExprOp::kNot, Type::kBool, equal.value)};
}

const Expr& Evaluator::unguarded(const Expr& expr, const Point& point) {
  const Expr* inner = &expr;
  while ((*inner)->op == ExprOp::kSelect && condition((*inner)->args[0], point).known == true) {
    inner = &(*inner)->args[1];
  }
  return *inner;
}

Point Evaluator::tensor_point(const Stage& stage, Point point) {
  Point result;
  result.chunk = point.chunk;
  result.valid = point.valid;
  result.dropped = point.dropped;
  for (const Expr& value : stage.axis_value) {
    result.axis.push_back(index(value, point));
    // Testing quotients that differ from lane to lane would cost a division each.
    if (!point.valid.empty() && !result.axis.back().terms.empty()) {
      result.bounded = true;
      Interval& range = result.axis.back().range;
      const Tensor& tensor = e_.tensor(stage.tensor);
      const size_t a = result.axis.size() - 1, spatial = tensor.axes.size();
      const Axis& axis = a < spatial ? tensor.axes[a] : tensor.reduce_axes[a - spatial];
      range = {std::max<int64_t>(range.lo, 0), std::min(range.hi, axis.extent - 1)};
      range.hi = std::max(range.lo, range.hi);
    }
    int64_t key = 0;
    bool varies = false;
    visit(value, [&](const ExprNode& node) {
      if (node.op != ExprOp::kAxis) return;
      key = key * 1000003 + point.key[node.index];
      varies = varies || point.varies[node.index];
    });
    result.key.push_back(key);
    result.varies.push_back(varies);
  }
  return result;
}

Evaluator::Truth Evaluator::lanes_exist(const Point& point) {
  if (point.chunk.active == point.chunk.lanes) return {true, {}};
  Index left;
  left.base = affine(point.chunk.active - 1);
  left.lane = -1;
  left.range = {point.chunk.active - point.chunk.lanes, point.chunk.active - 1};
  return at_least_zero(left, point);
}

Evaluator::Truth Evaluator::exists(const Point& point) {
  Truth truth = lanes_exist(point);
  for (const Index& valid : point.valid) truth = both(truth, at_least_zero(valid, point));
  return truth;
}

int Evaluator::point_mask(const Point& point) {
  const Truth truth = exists(point);
  if (truth.known == false) return immediate(Type::kBool, 0, 0, point.chunk.lanes).reg;
  if (truth.known) return -1;
  return broadcast(truth.value, point.chunk.lanes).reg;
}

}  // namespace lw::lowering
