// Integer expressions at a point: affine in loop variables and the lane wherever possible.
#include <algorithm>

#include "src/base/check.h"
#include "src/expr/scalar.h"
#include "src/lower/evaluate.h"

namespace lw::lowering {
namespace {

bool divides(const Affine& a, int64_t divisor) {
  return std::all_of(a.terms.begin(), a.terms.end(),
                     [&](const Affine::Term& t) { return t.coefficient % divisor == 0; });
}

bool same(const Index& a, const Index& b) {
  const auto equal = [](const Index::Term& s, const Index::Term& t) {
    return s.reg == t.reg && s.coefficient == t.coefficient;
  };
  return a.base == b.base && a.lane == b.lane &&
         std::equal(a.terms.begin(), a.terms.end(), b.terms.begin(), b.terms.end(), equal);
}

}  // namespace

Index Evaluator::index(const Expr& expr, const Point& point) {
  // Only what has several owners is asked for again at a point.
  if (expr.use_count() < 2 || expr->args.empty()) return index_of(expr, point);
  std::vector<int64_t> key = cache_key(expr, point);
  if (auto known = indices_.find(key); known != indices_.end()) return known->second;
  Index result = index_of(expr, point);
  indices_[std::move(key)] = result;
  return result;
}

Index Evaluator::index_of(const Expr& expr, const Point& point) {
  const std::vector<Expr>& args = expr->args;
  switch (expr->op) {
    case ExprOp::kConst: return make_index(e_, affine(expr->integer), 0, 1);
    case ExprOp::kAxis: return point.axis[expr->index];
    case ExprOp::kAdd: return add(index(args[0], point), index(args[1], point), 1);
    case ExprOp::kSub: return add(index(args[0], point), index(args[1], point), -1);
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
        const std::optional<Index> exact = divide_blocks(a, args[1]->integer, modulo, point);
        return exact ? *exact : divide(a, args[1]->integer, modulo, point);
      }
      break;
    case ExprOp::kMin:
    case ExprOp::kMax: return extreme(expr->op, index(args[0], point), index(args[1], point), point);
    case ExprOp::kAbs: {
      const Index a = index(args[0], point), negated = scale(a, -1);
      const Index zero = make_index(e_, affine(0), 0, 1);
      if (a.range.lo >= 0) return a;
      return extreme(ExprOp::kMax, extreme(ExprOp::kMax, a, negated, point), zero, point);
    }
    default: break;
  }
  // Anything else: an integer value (a gather's index, a product of axes).
  Value value;
  if (is_binary(expr->op) && expr->type == Type::kI64) {
    const int la = 1;
    Index a = index(args[0], point), b = index(args[1], point);
    const int lanes = a.uniform() && b.uniform() ? la : point.chunk.lanes;
    value = binary(expr->op, Type::kI64, {materialize(a, Type::kI64, lanes), lanes},
                   {materialize(b, Type::kI64, lanes), lanes});
  } else {
    value = cast(Type::kI64, evaluate(expr, point));
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

// The less or the greater of two indices: one of them where that is known, else a new variable or
// vector, the same for the same two.
Index Evaluator::extreme(ExprOp op, const Index& a, const Index& b, const Point& point) {
  const bool least = op == ExprOp::kMin;
  const Index apart = add(a, b, -1);       // of ranges only, unless the terms cancel
  Interval difference{a.range.lo - b.range.hi, a.range.hi - b.range.lo};
  if (apart.uniform() && apart.base.is_constant()) {
    difference = {apart.base.constant, apart.base.constant};
  }
  if (difference.hi <= 0) return least ? a : b;
  if (difference.lo >= 0) return least ? b : a;
  const int lanes = a.uniform() && b.uniform() ? 1 : point.chunk.lanes;
  for (const Extreme& known : extremes_) {
    const bool alike = known.op == op && known.lanes == lanes;
    if (alike && same(known.a, a) && same(known.b, b)) return known.result;
  }
  Index result;
  if (a.uniform() && b.uniform()) {
    result.base = e_.emit_int(least ? Stmt::IntOp::kMin : Stmt::IntOp::kMax, a.base, b.base, 1);
  } else {
    const Value x{vector_index(a, lanes), lanes}, y{vector_index(b, lanes), lanes};
    result.terms.push_back({binary(op, Type::kI64, x, y).reg, 1});
  }
  const Interval &p = a.range, &q = b.range;
  result.range = least ? Interval{std::min(p.lo, q.lo), std::min(p.hi, q.hi)}
                       : Interval{std::max(p.lo, q.lo), std::max(p.hi, q.hi)};
  extremes_.push_back({op, lanes, a, b, result});
  return result;
}

// The most that `a - whole` is at points that exist: what a masked tile holds past its limit does
// not count.
int64_t Evaluator::most_beyond(const Index& a, const Affine& whole, int64_t most,
                               const Point& point) {
  for (const Index& left : point.valid) {
    const Index limit = add(a, left, 1);   // no less than `a` where `left` >= 0
    const Affine beyond = limit.base - whole;
    if (limit.uniform() && beyond.is_constant()) most = std::min(most, beyond.constant);
  }
  return most;
}

// Variables in multiples of the divisor leave the rest alone where that stays within one block: the
// tiles of a group of lanes that shares a quotient. (Not for addresses in a blocked copy, whose
// origin may move.)
std::optional<Index> Evaluator::divide_blocks(const Index& a, int64_t divisor, bool modulo,
                                              const Point& point) {
  if (!a.terms.empty()) return std::nullopt;
  Affine whole = affine(0), part = affine(a.base.constant);
  for (const Affine::Term& t : a.base.terms) {
    Affine& side = t.coefficient % divisor == 0 ? whole : part;
    side = side + variable(t.var, t.coefficient);
  }
  const Index rest = make_index(e_, part, a.lane, a.uniform() ? 1 : point.chunk.active);
  if (rest.range.lo < 0) return std::nullopt;
  if (most_beyond(a, whole, rest.range.hi, point) >= divisor) return std::nullopt;
  if (modulo) return rest;
  Affine quotient = affine(0);
  for (const Affine::Term& t : whole.terms) {
    quotient = quotient + variable(t.var, t.coefficient / divisor);
  }
  return make_index(e_, quotient, 0, 1);
}

// floor(floor(x / a) / b) is floor(x / (a * b)): what stands for the one where the other was asked
// for before; -1: neither was.
int Evaluator::known_quotient(const Index& a, int64_t divisor, int lanes) const {
  const auto stands_for = [&](const Index& index, const Quotient& q) {
    Index quotient;
    if (q.vector) quotient.terms.push_back({q.quotient, 1});
    else quotient.base = variable(q.quotient);
    return same(index, quotient);
  };
  for (const Quotient& inner : quotients_) {
    if (inner.lanes != lanes) continue;
    for (const Quotient& outer : quotients_) {
      if (outer.lanes != lanes) continue;
      const bool at_once = stands_for(a, inner) && same(outer.dividend, inner.dividend) &&
                           outer.divisor % divisor == 0 &&
                           outer.divisor / divisor == inner.divisor;
      const bool in_steps = same(a, inner.dividend) && stands_for(outer.dividend, inner) &&
                            divisor % outer.divisor == 0 &&
                            divisor / outer.divisor == inner.divisor;
      if (at_once || in_steps) return outer.quotient;
    }
  }
  return -1;
}

// floor(a / divisor) or the remainder. Exactly affine when the variables' coefficients are
// multiples and all lanes fall into one block; otherwise a new variable or vector, remembered so
// that cancel_quotients() can undo (q * divisor + r).
Index Evaluator::divide(const Index& a, int64_t divisor, bool modulo, const Point& point) {
  const int lanes = a.uniform() ? 1 : point.chunk.lanes;
  if (divisor == 1) return modulo ? Index{} : a;
  const Interval range = a.terms.empty() && !a.uniform()
                             ? make_index(e_, a.base, a.lane, point.chunk.active).range
                             : a.range;
  if (floor_div(range.lo, divisor) == floor_div(range.hi, divisor)) {
    const int64_t q = floor_div(range.lo, divisor);
    Index constant = make_index(e_, affine(q), 0, 1);
    if (!modulo) return constant;
    Index r = add(a, constant, -divisor);
    r.range = {a.range.lo - q * divisor, a.range.hi - q * divisor};
    return r;
  }
  if (a.terms.empty() && divides(a.base, divisor)) {
    const int64_t q = floor_div(a.base.constant, divisor), r = a.base.constant - q * divisor;
    // Lanes past the chunk's end do not count: nothing is read or written there.
    const int64_t last = r + a.lane * (a.uniform() ? 0 : point.chunk.active - 1);
    if (last >= 0 && last < divisor) {
      if (modulo) {
        Index result;
        result.base = affine(r);
        result.lane = a.lane;
        result.range = {std::min(r, last), std::max(r, last)};
        return result;
      }
      Index result;
      result.base = affine(q);
      for (const Affine::Term& t : a.base.terms)
        result.base = result.base + variable(t.var, t.coefficient / divisor);
      result.range = {floor_div(a.range.lo, divisor), floor_div(a.range.hi, divisor)};
      return result;
    }
  }
  for (const Emitter::Quotient& known : e_.quotients) {
    if (!a.uniform() || known.divisor != divisor || !(known.of == a.base)) continue;
    return make_index(e_, modulo ? known.remainder : known.quotient, 0, 1);
  }
  auto found = std::find_if(quotients_.begin(), quotients_.end(), [&](const Quotient& q) {
    return q.divisor == divisor && q.lanes == lanes && same(q.dividend, a);
  });
  if (found == quotients_.end()) {
    Quotient q{a, divisor, lanes, lanes > 1, known_quotient(a, divisor, lanes), -1};
    if (lanes == 1) {
      if (q.quotient < 0) {
        const Affine quotient = e_.emit_int(Stmt::IntOp::kDiv, a.base, {}, divisor);
        CHECK(quotient.terms.size() == 1);
        q.quotient = quotient.terms[0].var;
      }
      const Affine remainder = e_.emit_int(Stmt::IntOp::kMod, a.base, {}, divisor);
      q.remainder = remainder.terms[0].var;
    } else {
      const Value value{vector_index(a, lanes), lanes};
      const Value by = immediate(Type::kI64, static_cast<double>(divisor), divisor, lanes);
      if (q.quotient < 0) q.quotient = binary(ExprOp::kDiv, Type::kI64, value, by).reg;
      q.remainder = binary(ExprOp::kMod, Type::kI64, value, by).reg;
    }
    quotients_.push_back(q);
    found = quotients_.end() - 1;
  }
  Index result;
  const int id = modulo ? found->remainder : found->quotient;
  if (found->vector) {
    result.terms.push_back({id, 1});
  } else {
    result.base = variable(id);
  }
  result.range = modulo ? Interval{0, divisor - 1}
                        : Interval{floor_div(a.range.lo, divisor), floor_div(a.range.hi, divisor)};
  return result;
}

// d * divisor * q + d * r -> d * dividend, for every remembered pair.
void Evaluator::cancel_quotients(Index& index) {
  for (auto q = quotients_.rbegin(); q != quotients_.rend(); ++q) {
    int64_t of_quotient = 0, of_remainder = 0;
    if (q->vector) {
      for (const Index::Term& t : index.terms) {
        if (t.reg == q->quotient) of_quotient = t.coefficient;
        if (t.reg == q->remainder) of_remainder = t.coefficient;
      }
    } else {
      for (const Affine::Term& t : index.base.terms) {
        if (t.var == q->quotient) of_quotient = t.coefficient;
        if (t.var == q->remainder) of_remainder = t.coefficient;
      }
    }
    if (of_remainder == 0 || of_quotient != of_remainder * q->divisor) continue;
    Index pair;
    if (q->vector) {
      pair.terms.push_back({q->quotient, of_quotient});
      pair.terms.push_back({q->remainder, of_remainder});
    } else {
      pair.base = variable(q->quotient, of_quotient) + variable(q->remainder, of_remainder);
    }
    index = add(add(index, pair, -1), q->dividend, of_remainder);
  }
}

int Evaluator::materialize(const Index& index, Type type, int lanes) {
  if (!index.terms.empty()) return cast(type, {vector_index(index, lanes), lanes}).reg;
  Stmt stmt;
  stmt.op = Op::kIota;
  stmt.dst = e_.new_register(type, lanes);
  stmt.index = index.base;
  stmt.stride = lanes > 1 ? index.lane : 0;
  const int dst = stmt.dst;
  e_.emit(std::move(stmt));
  return dst;
}

// All lanes of the index as a kI64 register.
int Evaluator::vector_index(const Index& index, int lanes) {
  Index affine_part;
  affine_part.base = index.base;
  affine_part.lane = index.lane;
  Value sum{materialize(affine_part, Type::kI64, lanes), lanes};
  for (const Index::Term& t : index.terms) {
    const Value factor =
        immediate(Type::kI64, static_cast<double>(t.coefficient), t.coefficient, lanes);
    sum = binary(ExprOp::kAdd, Type::kI64, sum,
                 binary(ExprOp::kMul, Type::kI64, {t.reg, lanes}, factor));
  }
  return sum.reg;
}

// The index read from a tensor, clamped: whatever it holds, nothing outside [0, extent) is read.
Index Evaluator::gather_index(const Expr& expr, const Point& point, int64_t extent) {
  Index raw = index(expr, point);
  if (raw.range.lo >= 0 && raw.range.hi < extent) return raw;
  if (raw.uniform()) {
    Index result;
    result.base = e_.clamp(raw.base, extent);
    result.range = {0, extent - 1};
    return result;
  }
  const int lanes = point.chunk.lanes;
  Value value{vector_index(raw, lanes), lanes};
  value = binary(ExprOp::kMax, Type::kI64, value, immediate(Type::kI64, 0, 0, lanes));
  value = binary(ExprOp::kMin, Type::kI64, value,
                 immediate(Type::kI64, static_cast<double>(extent - 1), extent - 1, lanes));
  Index result;
  result.terms.push_back({value.reg, 1});
  result.range = {0, extent - 1};
  return result;
}

}  // namespace lw::lowering
