#include "src/lower/values/evaluate.h"

#include <algorithm>
#include <cstdlib>

#include "src/base/check.h"
#include "src/expr/bounds.h"
#include "src/lower/values/border.h"
#include "src/lower/values/dot.h"
#include "src/lower/values/transpose.h"

namespace lw::lowering {
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

Evaluator::Key Evaluator::cache_key(const Expr& expr, const Point& point) {
  const uint64_t mask = dependencies(expr);
  Key key{reinterpret_cast<int64_t>(expr.get())};
  bool varies = false;
  for (size_t a = 0; a < point.key.size(); ++a) {
    if (!(mask >> std::min<size_t>(a, 62) & 1)) continue;
    key.push_back(point.key[a]);
    varies = varies || point.varies[a];
  }
  if (varies) key.push_back(point.chunk.lanes * 4096 + point.chunk.active);
  return key;
}

Value Evaluator::evaluate(const Expr& expr, const Point& point) {
  if (expr->op == ExprOp::kRead) {
    auto over = overlay_.find(expr->index);
    if (over != overlay_.end()) return over->second;
  }
  const Key key = cache_key(expr, point);
  auto it = cache_.find(key);
  if (it != cache_.end()) return it->second;
  const Value value = compute(expr, point);
  cache_[key] = value;
  return value;
}

Value Evaluator::axis_value(const Expr& axis, Type type, const Point& point) {
  const Index value = index(axis, point);
  return registers().of_index(value, type, value.uniform() ? 1 : point.chunk.lanes);
}

// Whether what the tensor is read from has the zeros that are around it.
bool Evaluator::holds_pad(const Expr& expr) const {
  const int tensor = expr->args[0]->index;
  return expr->args[0]->op == ExprOp::kRead && is_zero(*expr->args[1]) &&
         !overlay_.contains(tensor) && memory_.storage_of(tensor).beyond;
}

Value Evaluator::compute(const Expr& expr, const Point& point) {
  Registers& r = registers();
  const std::vector<Expr>& args = expr->args;
  switch (expr->op) {
    case ExprOp::kConst: return r.immediate(expr->type, expr->number, expr->integer, 1);
    case ExprOp::kAxis: return axis_value(expr, Type::kI64, point);
    case ExprOp::kRead: return read(expr, point, nullptr);
    case ExprOp::kPad: {
      if (holds_pad(expr)) return read(args[0], point, nullptr);
      Truth in_bounds;
      const Value value = read(args[0], point, &in_bounds);
      if (in_bounds.known == true) return value;
      if (in_bounds.known == false) return evaluate(args[1], point);
      return r.select(in_bounds.value, value, r.cast(expr->type, evaluate(args[1], point)));
    }
    case ExprOp::kSelect: {
      const Truth truth = condition(args[0], point);
      if (truth.known) return evaluate(args[*truth.known ? 1 : 2], point);
      const Value a = evaluate(args[1], point);
      return r.select(truth.value, a, evaluate(args[2], point));
    }
    case ExprOp::kCast: {
      // Axes as values: known exactly as an index.
      if (args[0]->op == ExprOp::kAxis && args[0]->type == Type::kI64 && !is_float(expr->type)) {
        return axis_value(args[0], expr->type, point);
      }
      const Value value = evaluate(args[0], point);
      // A cast between two types that registers hold alike (f32 to bf16) still rounds.
      if (is_narrow(expr->type)) {
        return r.cast(register_type(expr->type), r.convert(expr->type, value));
      }
      return r.cast(expr->type, value);
    }
    default: break;
  }
  if (expr->type == Type::kBool) {
    const Truth truth = condition(expr, point);
    return truth.known ? r.immediate(Type::kBool, *truth.known, *truth.known, 1) : truth.value;
  }
  if (is_binary(expr->op)) {
    const Value a = evaluate(args[0], point);
    const Value b = evaluate(args[1], point);
    if (expr->op == ExprOp::kDiv && is_float(expr->type) && a.lanes > 1 && b.lanes == 1) {
      return r.binary(ExprOp::kMul, expr->type, a, r.reciprocal(b));
    }
    return r.binary(expr->op, expr->type, a, b);
  }
  CHECK(is_unary(expr->op));
  return r.unary(expr->op, expr->type, evaluate(args[0], point));
}

Truth Evaluator::condition(const Expr& expr, const Point& point) {
  // Only what has several owners is asked for again at a point.
  if (expr.use_count() < 2 || expr->args.empty()) return decide(expr, point);
  Key key = cache_key(expr, point);
  if (auto known = truths_.find(key); known != truths_.end()) return known->second;
  const Truth truth = decide(expr, point);
  truths_[std::move(key)] = truth;
  return truth;
}

// Comparisons of index expressions are decided from the ranges of the loop variables where that is
// possible: inside a tensor no check of its padding remains.
Truth Evaluator::decide(const Expr& expr, const Point& point) {
  Registers& r = registers();
  const std::vector<Expr>& args = expr->args;
  switch (expr->op) {
    case ExprOp::kConst: return {expr->integer != 0, {}};
    case ExprOp::kAnd: {
      const Truth a = condition(args[0], point);
      if (a.known == false) return a;
      return both(r, a, condition(args[1], point));
    }
    case ExprOp::kOr: {
      const Truth a = condition(args[0], point);
      if (a.known == true) return a;
      const Truth b = condition(args[1], point);
      if (b.known == true || a.known == false) return b;
      if (b.known == false) return a;
      return {std::nullopt, r.binary(ExprOp::kOr, Type::kBool, a.value, b.value)};
    }
    case ExprOp::kNot: {
      const Truth a = condition(args[0], point);
      if (a.known) return {!*a.known, {}};
      return {std::nullopt, r.unary(ExprOp::kNot, Type::kBool, a.value)};
    }
    case ExprOp::kEq: case ExprOp::kNe: case ExprOp::kLt:
    case ExprOp::kLe: case ExprOp::kGt: case ExprOp::kGe: break;
    default: return {std::nullopt, evaluate(expr, point)};
  }
  // Differences of addresses do not overflow, those of data may.
  if (args[0]->type != Type::kI64 || is_gather(args[0]) || is_gather(args[1])) {
    const Value a = evaluate(args[0], point);
    return {std::nullopt, r.binary(expr->op, Type::kBool, a, evaluate(args[1], point))};
  }
  const Index a = index(args[0], point), b = index(args[1], point);
  return compare(expr->op, a, b, point.chunk.lanes);
}

Truth Evaluator::compare(ExprOp op, const Index& a, const Index& b, int lanes) {
  Registers& r = registers();
  const Index one = make_index(e_, affine(1), 0, 1);
  switch (op) {
    case ExprOp::kLt: return at_least_zero(r, add(add(b, a, -1), one, -1), lanes);
    case ExprOp::kLe: return at_least_zero(r, add(b, a, -1), lanes);
    case ExprOp::kGt: return at_least_zero(r, add(add(a, b, -1), one, -1), lanes);
    case ExprOp::kGe: return at_least_zero(r, add(a, b, -1), lanes);
    default: break;
  }
  const Truth no_less = at_least_zero(r, add(a, b, -1), lanes);
  const Truth equal = both(r, no_less, at_least_zero(r, add(b, a, -1), lanes));
  if (op == ExprOp::kEq) return equal;
  if (equal.known) return {!*equal.known, {}};
  return {std::nullopt, r.unary(ExprOp::kNot, Type::kBool, equal.value)};
}

const Expr& Evaluator::unguarded(const Expr& expr, const Point& point) {
  const Expr* inner = &expr;
  while ((*inner)->op == ExprOp::kSelect && condition((*inner)->args[0], point).known == true) {
    inner = &(*inner)->args[1];
  }
  return *inner;
}

Index Evaluator::index(const Expr& expr, const Point& point) {
  // Only what has several owners is asked for again at a point.
  if (expr.use_count() < 2 || expr->args.empty()) return index_of(expr, point);
  Key key = cache_key(expr, point);
  if (auto known = indices_.find(key); known != indices_.end()) return known->second;
  Index result = index_of(expr, point);
  indices_[std::move(key)] = result;
  return result;
}

Index Evaluator::index_of(const Expr& expr, const Point& point) {
  Addressing& at = memory_.addressing();
  const int lanes = point.chunk.lanes;
  const std::vector<Expr>& args = expr->args;
  switch (expr->op) {
    case ExprOp::kConst: return make_index(e_, affine(expr->integer), 0, 1);
    case ExprOp::kAxis: return point.axis[expr->index];
    case ExprOp::kAdd: case ExprOp::kSub: case ExprOp::kMin: case ExprOp::kMax: {
      const Index a = index(args[0], point), b = index(args[1], point);  // in this order
      if (expr->op == ExprOp::kAdd) return add(a, b, 1);
      if (expr->op == ExprOp::kSub) return add(a, b, -1);
      return at.extreme(expr->op, a, b, lanes);
    }
    case ExprOp::kNeg: return scale(index(args[0], point), -1);
    case ExprOp::kMul: {
      if (args[1]->op == ExprOp::kConst) return scale(index(args[0], point), args[1]->integer);
      if (args[0]->op == ExprOp::kConst) return scale(index(args[1], point), args[0]->integer);
      break;
    }
    case ExprOp::kDiv:
    case ExprOp::kMod:
      if (args[1]->op == ExprOp::kConst && args[1]->integer > 0) {
        const Index a = index(args[0], point);
        const bool modulo = expr->op == ExprOp::kMod;
        const std::optional<Index> exact = at.divide_blocks(a, args[1]->integer, modulo, point);
        return exact ? *exact : at.divide(a, args[1]->integer, modulo, point);
      }
      break;
    case ExprOp::kAbs: {
      const Index a = index(args[0], point), negated = scale(a, -1);
      const Index zero = make_index(e_, affine(0), 0, 1);
      if (a.range.lo >= 0) return a;
      return at.extreme(ExprOp::kMax, at.extreme(ExprOp::kMax, a, negated, lanes), zero, lanes);
    }
    default: break;
  }
  return index_of_value(expr, point);
}

// Anything else: an integer value (a gather's index, a product of axes).
Index Evaluator::index_of_value(const Expr& expr, const Point& point) {
  Registers& r = registers();
  Value value;
  if (is_binary(expr->op) && expr->type == Type::kI64) {
    const Index a = index(expr->args[0], point), b = index(expr->args[1], point);
    const int lanes = a.uniform() && b.uniform() ? 1 : point.chunk.lanes;
    const Value x = r.of_index(a, Type::kI64, lanes);
    value = r.binary(expr->op, Type::kI64, x, r.of_index(b, Type::kI64, lanes));
  } else {
    value = r.cast(Type::kI64, evaluate(expr, point));
  }
  Index result;
  result.range = {INT64_MIN / 4, INT64_MAX / 4};
  if (value.lanes == 1) {
    Stmt stmt;
    stmt.kind = Stmt::Kind::kInt;
    stmt.int_op = Stmt::IntOp::kRegister;
    stmt.srcs[0] = value.reg;
    stmt.var = e_.new_var(result.range);
    result.base = variable(stmt.var);
    e_.emit(std::move(stmt));
  } else {
    result.terms.push_back({value.reg, 1});
  }
  return result;
}

// Masked by its own bounds where the index may leave the tensor (under `pad` or `where`): no lane
// ever touches memory outside.
Value Evaluator::read(const Expr& expr, const Point& point, Truth* in_bounds) {
  Registers& r = registers();
  const int t = expr->index;
  if (auto over = overlay_.find(t); over != overlay_.end() && in_bounds == nullptr)
    return over->second;
  const Storage& storage = memory_.storage_of(t);
  CHECK(storage.buffer >= 0);
  const Tensor& tensor = e_.tensor(t);
  std::vector<Index> indices;
  Truth rows{true, {}}, lanes{true, {}};   // the bounds that all lanes share, and the others
  const bool unasked = in_bounds == nullptr && !beyond_is_zero_;
  const auto bound = [&](const Index& index, int64_t extent) {
    const Index last = make_index(e_, affine(extent - 1), 0, 1), left = add(last, index, -1);
    if (index.uniform() && unasked) {
      for (const Index& i : {index, left}) {
        if (i.range.lo < 0 && !known_at_least_zero(e_, i.base)) rows.known = std::nullopt;
      }
      return;
    }
    Truth& of = index.uniform() ? rows : lanes;
    of = both(r, of, at_least_zero(r, index, point.chunk.lanes));
    of = both(r, of, at_least_zero(r, left, point.chunk.lanes));
  };
  for (size_t d = 0; d < expr->args.size(); ++d) {
    Index i = index(expr->args[d], point);
    // Whatever the index that is read holds, nothing outside the tensor is.
    if (in_bounds == nullptr && is_gather(expr->args[d])) {
      i = memory_.addressing().clamp(i, tensor.shape[d], point.chunk.lanes);
    }
    // Lanes past the chunk's end do not count: they are masked anyway.
    Index active = i;
    if (i.terms.empty() && i.lane != 0 && point.chunk.active < point.chunk.lanes) {
      active.range = make_index(e_, i.base, i.lane, point.chunk.active).range;
    }
    if (!storage.beyond) bound(active, tensor.shape[d]);
    indices.push_back(std::move(i));
  }
  if (in_bounds != nullptr) *in_bounds = both(r, rows, lanes);
  // The box of a copy or an attached producer holds all that is read inside the tensor; where
  // ranges do not show it, the address is checked too.
  std::vector<Index> local;
  for (size_t d = 0; d < indices.size(); ++d) {
    local.push_back(localize(e_, storage, d, indices[d], point));
    if (storage.beyond || storage.shape[d] != tensor.shape[d]) bound(local[d], storage.shape[d]);
  }
  if (rows.known == false || lanes.known == false) return r.immediate(tensor.type, 0, 0, 1);
  // Where a bound that all lanes share is not known, the nearest element inside is read instead and
  // dropped: even a load whose lanes are all off takes a fault beside memory that is not there.
  for (size_t d = 0; d < local.size() && !rows.known; ++d) {
    if (local[d].uniform())
      local[d] = make_index(e_, e_.clamp(local[d].base, storage.shape[d]), 0, 1);
  }
  const Value value = read_inside(storage, expr, local, lanes, rows.known.has_value(), point);
  return rows.known || unasked ? value : r.select(rows.value, value, r.zero_like(value));
}

// A read of which only single lanes may be outside. `settled`: its address is not a clamped one.
Value Evaluator::read_inside(const Storage& storage, const Expr& expr,
                             const std::vector<Index>& local, Truth inside, bool settled,
                             const Point& point) {
  Registers& r = registers();
  const bool uniform =
      std::all_of(local.begin(), local.end(), [](const Index& i) { return i.uniform(); });
  if (uniform) return memory_.load_element(storage, expr->index, local, point);
  const Index address = memory_.addressing().flatten(storage, local, point);
  const int buffer = storage.buffer, lanes = point.chunk.lanes;
  int mask = -1;
  const Truth lanes_on = both(r, inside, point.bounded ? exists(r, point) : lanes_exist(r, point));
  if (!lanes_on.known) mask = r.broadcast(lanes_on.value, lanes).reg;
  memory_.prefetch(expr->index, buffer, address);
  if (address.uniform()) {
    if (mask < 0) return memory_.load_scalar(buffer, address);
    // One element for all lanes, though their indices differ: it exists if any lane is on.
    const Affine clamped = e_.clamp(address.base, e_.kernel.buffers[buffer].elements);
    const Value scalar = memory_.load(buffer, make_index(e_, clamped, 0, 1), 1, -1);
    return r.select({mask, lanes}, scalar, r.zero_like(scalar));
  }
  if (settled && mask < 0 && address.terms.empty() && tile_ != nullptr) {
    const Value value = read_with_tile(storage, expr, address, point);
    if (value.reg >= 0) return value;
  }
  if (!address.terms.empty()) {
    const auto at_point = [&](const Expr& e) { return index(e, point); };
    const std::optional<PlainPlace> plain =
        plain_place(memory_.addressing(), storage, expr, local, point, at_point);
    if (plain) {
      return memory_.load_either(buffer, plain->needs, plain->address, address, lanes, mask);
    }
  }
  return memory_.load(buffer, address, lanes, mask);
}

Value Evaluator::read_with_tile(const Storage& storage, const Expr& expr, const Index& address,
                                const Point& point) {
  const Chunk& chunk = point.chunk;
  const auto key_of = [&](const Point& other) { return cache_key(expr, other); };
  if (std::abs(address.lane) > 1) {
    if ((chunk.lanes & (chunk.lanes - 1)) != 0 || chunk.lanes < 2) return {};
    const auto counts = [&](const Point& other) {
      return other.chunk.offset == chunk.offset && other.chunk.lanes == chunk.lanes;
    };
    Value mine;
    for (const auto& [neighbour, value] :
         load_transposed(memory_, storage.buffer, address, chunk.lanes,
                         neighbours(storage, expr, address, counts))) {
      cache_[key_of(*neighbour.point)] = value;
      if (neighbour.apart == 0) mine = value;
    }
    return mine;
  }
  if (address.lane != 1 || !memory_.stage().slide) return {};
  const Key key = key_of(point);
  if (slides_.first_asked(key)) {
    const auto counts = [&](const Point& other) {
      return other.chunk.lanes == chunk.lanes && other.chunk.active == chunk.lanes &&
             other.valid.empty();
    };
    slides_.add(storage.buffer, address.base, chunk.lanes,
                neighbours(storage, expr, address, counts), key_of);
  }
  return slides_.load(memory_, key, chunk.lanes);
}

std::vector<Neighbour> Evaluator::neighbours(const Storage& storage, const Expr& expr,
                                             const Index& address,
                                             absl::FunctionRef<bool(const Point&)> counts) {
  std::vector<Neighbour> list;
  for (const Point& other : *tile_) {
    if (!counts(other)) continue;
    const std::optional<Index> place = address_inside(storage, expr, other);
    if (!place) continue;
    const Index apart = add(*place, address, -1);
    if (apart.base.is_constant() && apart.uniform()) list.push_back({apart.base.constant, &other});
  }
  return list;
}

std::optional<Index> Evaluator::address_inside(const Storage& storage, const Expr& expr,
                                               const Point& point) {
  std::vector<Index> local;
  for (size_t d = 0; d < expr->args.size(); ++d) {
    if (is_gather(expr->args[d])) return std::nullopt;
    const Index at = index(expr->args[d], point);
    if (at.range.lo < 0 || at.range.hi >= e_.tensor(expr->index).shape[d]) return std::nullopt;
    local.push_back(localize(e_, storage, d, at, point));
  }
  return memory_.addressing().flatten(storage, local, point);
}

Value Evaluator::grouped(const Expr& expr, absl::Span<const Point> points, Type type) {
  Key key = cache_key(expr, points[0]);
  key.push_back(-static_cast<int64_t>(points.size()));
  if (auto it = cache_.find(key); it != cache_.end()) return it->second;
  // A pad that nothing here reaches is its read; where one does, zeros may stand for it.
  const bool padded = expr->op == ExprOp::kPad && is_zero(*expr->args[1]);
  const Expr& read = padded ? expr->args[0] : expr;
  const bool affine = read->op == ExprOp::kRead && !overlay_.contains(read->index) &&
                      std::none_of(read->args.begin(), read->args.end(), is_gather);
  const auto place_at = [&](const Point& point) {
    return place_of(memory_, read, point, [&](const Expr& e) { return index(e, point); });
  };
  memory_.keep_raw(true);
  Value result;
  if (affine) result = load_group(memory_, read, points, place_at);
  if (result.reg < 0) {
    // Blocks transposed for one read serve others, which may want what raw loads do not give.
    const std::vector<Point>* tile = tile_;
    if (register_type(type) != type) tile_ = nullptr;
    std::vector<Value> values;
    for (const Point& point : points) {
      const bool raw = affine && !padded && loads_whole(place_at(point), point);
      memory_.keep_raw(raw);
      const Value value = raw ? this->read(expr, point, nullptr) : evaluate(expr, point);
      values.push_back(registers().convert(type, value));
    }
    result = registers().interleave(values);
    tile_ = tile;
  }
  memory_.keep_raw(false);
  cache_[key] = result;
  return result;
}

}  // namespace lw::lowering
