// Where an element lies: affine in loop variables and the lane wherever possible.
#include "src/lower/values/addressing.h"

#include <algorithm>
#include <numeric>

#include "src/base/check.h"
#include "src/expr/scalar.h"

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

// The most that `a - whole` is at points that exist: what a masked tile holds past its limit does
// not count.
int64_t most_beyond(const Index& a, const Affine& whole, int64_t most, const Point& point) {
  for (const Index& left : point.valid) {
    const Index limit = add(a, left, 1);   // no less than `a` where `left` >= 0
    const Affine beyond = limit.base - whole;
    if (limit.uniform() && beyond.is_constant()) most = std::min(most, beyond.constant);
  }
  return most;
}

}  // namespace

Index localize(const Emitter& e, const Storage& s, size_t d, const Index& index,
               const Point& point) {
  Index local = add(index, make_index(e, s.origin[d], 0, 1), -1);
  if (!local.terms.empty()) return local;
  const Interval exact =
      make_index(e, local.base, local.lane, local.lane == 0 ? 1 : point.chunk.active).range;
  local.range = {std::max(local.range.lo, exact.lo), std::min(local.range.hi, exact.hi)};
  local.range.hi = std::max(local.range.hi, local.range.lo);
  return local;
}

// One of the two where that is known, else a new variable or vector, the same for the same two.
Index Addressing::extreme(ExprOp op, const Index& a, const Index& b, int lanes) {
  const bool least = op == ExprOp::kMin;
  const Index apart = add(a, b, -1);       // of ranges only, unless the terms cancel
  Interval difference{a.range.lo - b.range.hi, a.range.hi - b.range.lo};
  if (apart.uniform() && apart.base.is_constant()) {
    difference = {apart.base.constant, apart.base.constant};
  }
  if (difference.hi <= 0) return least ? a : b;
  if (difference.lo >= 0) return least ? b : a;
  const bool uniform = a.uniform() && b.uniform();
  if (uniform) lanes = 1;
  for (const Extreme& known : extremes_) {
    const bool alike = known.op == op && known.lanes == lanes;
    if (alike && same(known.a, a) && same(known.b, b)) return known.result;
  }
  Index result;
  if (uniform) {
    result.base = e_.emit_int(least ? Stmt::IntOp::kMin : Stmt::IntOp::kMax, a.base, b.base, 1);
  } else {
    const Value x = registers_.of_index(a, Type::kI64, lanes);
    const Value y = registers_.of_index(b, Type::kI64, lanes);
    result.terms.push_back({registers_.binary(op, Type::kI64, x, y).reg, 1});
  }
  const Interval &p = a.range, &q = b.range;
  result.range = least ? Interval{std::min(p.lo, q.lo), std::min(p.hi, q.hi)}
                       : Interval{std::max(p.lo, q.lo), std::max(p.hi, q.hi)};
  extremes_.push_back({op, lanes, a, b, result});
  return result;
}

Index Addressing::clamp(const Index& a, int64_t extent, int lanes) {
  if (a.range.lo >= 0 && a.range.hi < extent) return a;
  Index result;
  if (a.uniform()) {
    result.base = e_.clamp(a.base, extent);
  } else {
    Value value = registers_.of_index(a, Type::kI64, lanes);
    value = registers_.binary(ExprOp::kMax, Type::kI64, value, registers_.whole(0, lanes));
    value = registers_.binary(ExprOp::kMin, Type::kI64, value, registers_.whole(extent - 1, lanes));
    result.terms.push_back({value.reg, 1});
  }
  result.range = {0, extent - 1};
  return result;
}

// Variables in multiples of the divisor leave the rest alone where that stays within one block: the
// tiles of a group of lanes that shares a quotient.
std::optional<Index> Addressing::divide_blocks(const Index& a, int64_t divisor, bool modulo,
                                               const Point& point) const {
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
int Addressing::known_quotient(const Index& a, int64_t divisor, int lanes) const {
  const auto stands_for = [](const Index& index, const Quotient& q) {
    return same(index, q.index(q.quotient));
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

// Where the variables' coefficients are multiples and all lanes fall into one block.
std::optional<Index> Addressing::divide_affine(const Index& a, int64_t divisor, bool modulo,
                                               const Point& point) const {
  const Interval range = a.terms.empty() && !a.uniform()
                             ? make_index(e_, a.base, a.lane, point.chunk.active).range
                             : a.range;
  if (floor_div(range.lo, divisor) == floor_div(range.hi, divisor)) {
    const int64_t q = floor_div(range.lo, divisor);
    const Index constant = make_index(e_, affine(q), 0, 1);
    if (!modulo) return constant;
    Index r = add(a, constant, -divisor);
    r.range = {a.range.lo - q * divisor, a.range.hi - q * divisor};
    return r;
  }
  if (!a.terms.empty() || !divides(a.base, divisor)) return std::nullopt;
  const int64_t q = floor_div(a.base.constant, divisor), r = a.base.constant - q * divisor;
  // Lanes past the chunk's end do not count: nothing is read or written there.
  const int64_t last = r + a.lane * (a.uniform() ? 0 : point.chunk.active - 1);
  if (last < 0 || last >= divisor) return std::nullopt;
  Index result;
  if (modulo) {
    result.base = affine(r);
    result.lane = a.lane;
    result.range = {std::min(r, last), std::max(r, last)};
    return result;
  }
  result.base = affine(q);
  for (const Affine::Term& t : a.base.terms)
    result.base = result.base + variable(t.var, t.coefficient / divisor);
  result.range = {floor_div(a.range.lo, divisor), floor_div(a.range.hi, divisor)};
  return result;
}

Index Addressing::Quotient::index(int part, int64_t coefficient) const {
  Index index;
  if (lanes > 1) index.terms.push_back({part, coefficient});
  else index.base = variable(part, coefficient);
  return index;
}

// New variables or vectors, remembered so that cancel_quotients() can undo (q * divisor + r).
const Addressing::Quotient& Addressing::quotient(const Index& a, int64_t divisor, int lanes) {
  const auto found = std::find_if(quotients_.begin(), quotients_.end(), [&](const Quotient& q) {
    return q.divisor == divisor && q.lanes == lanes && same(q.dividend, a);
  });
  if (found != quotients_.end()) return *found;
  Quotient q{a, divisor, lanes, known_quotient(a, divisor, lanes), -1};
  if (lanes == 1) {
    if (q.quotient < 0) {
      const Affine quotient = e_.emit_int(Stmt::IntOp::kDiv, a.base, {}, divisor);
      CHECK(quotient.terms.size() == 1);
      q.quotient = quotient.terms[0].var;
    }
    const Affine remainder = e_.emit_int(Stmt::IntOp::kMod, a.base, {}, divisor);
    q.remainder = remainder.terms[0].var;
  } else {
    const Value value = registers_.of_index(a, Type::kI64, lanes);
    const Value by = registers_.whole(divisor, lanes);
    if (q.quotient < 0) q.quotient = registers_.binary(ExprOp::kDiv, Type::kI64, value, by).reg;
    q.remainder = registers_.binary(ExprOp::kMod, Type::kI64, value, by).reg;
  }
  quotients_.push_back(std::move(q));
  return quotients_.back();
}

Index Addressing::divide(const Index& a, int64_t divisor, bool modulo, const Point& point) {
  if (divisor == 1) return modulo ? Index{} : a;
  if (const std::optional<Index> exact = divide_affine(a, divisor, modulo, point)) return *exact;
  for (const Emitter::Quotient& known : e_.quotients) {
    if (!a.uniform() || known.divisor != divisor || !(known.of == a.base)) continue;
    return make_index(e_, modulo ? known.remainder : known.quotient, 0, 1);
  }
  const Quotient& q = quotient(a, divisor, a.uniform() ? 1 : point.chunk.lanes);
  Index result = q.index(modulo ? q.remainder : q.quotient);
  result.range = modulo ? Interval{0, divisor - 1}
                        : Interval{floor_div(a.range.lo, divisor), floor_div(a.range.hi, divisor)};
  return result;
}

// d * divisor * q + d * r -> d * dividend, for every remembered pair.
void Addressing::cancel_quotients(Index& index) const {
  for (auto q = quotients_.rbegin(); q != quotients_.rend(); ++q) {
    int64_t of_quotient = 0, of_remainder = 0;
    const auto look_at = [&](int part, int64_t coefficient) {
      if (part == q->quotient) of_quotient = coefficient;
      if (part == q->remainder) of_remainder = coefficient;
    };
    if (q->lanes > 1) {
      for (const Index::Term& t : index.terms) look_at(t.reg, t.coefficient);
    } else {
      for (const Affine::Term& t : index.base.terms) look_at(t.var, t.coefficient);
    }
    if (of_remainder == 0 || of_quotient != of_remainder * q->divisor) continue;
    const Index pair =
        add(q->index(q->quotient, of_quotient), q->index(q->remainder, of_remainder), 1);
    index = add(add(index, pair, -1), q->dividend, of_remainder);
  }
}

// Of a swizzled copy, whose vectors are pieces of 16 bytes, in one block each.
Index Addressing::divide_piece(const Index& a, int64_t divisor, bool modulo, const Point& point) {
  int64_t unit = std::gcd(divisor, a.base.constant);
  for (const Affine::Term& t : a.base.terms) unit = std::gcd(unit, t.coefficient);
  const bool together = a.terms.empty() && point.chunk.active == point.chunk.lanes &&
                        a.lane * (point.chunk.lanes - 1) < unit;
  if (!together) return divide(a, divisor, modulo, point);
  // In units, so that what the remainder is a multiple of stays known.
  const auto times = [](const Affine& of, int64_t by, int64_t over) {
    Affine result = affine(of.constant / over * by);
    for (const Affine::Term& t : of.terms) {
      result = result + variable(t.var, t.coefficient / over * by);
    }
    return result;
  };
  const Index units = make_index(e_, times(a.base, 1, unit), 0, 1);
  Index result = divide(units, divisor / unit, modulo, point);
  if (!modulo) return result;
  result.base = times(result.base, unit, 1);
  result.lane = a.lane;
  result.range = {result.range.lo * unit, divisor - 1};
  return result;
}

Index Addressing::flatten(const Storage& s, const std::vector<Index>& local, const Point& point) {
  Index address;
  int64_t stride = 1;
  if (s.group_dim >= 0) {
    address = divide(local[s.group_dim], s.group, true, point);
    stride = s.group;
  }
  // A box within one block has no others: what is read of it needs no remainder, and none could be
  // shown to stay inside where the box moves.
  const bool one_block = s.block_dim >= 0 && s.shape[s.block_dim] <= s.block;
  const auto divided = [&](bool modulo) {
    const Index& at = local[s.block_dim];
    return e_.kernel.buffers[s.buffer].swizzled ? divide_piece(at, s.block, modulo, point)
                                                : divide(at, s.block, modulo, point);
  };
  if (s.block_dim >= 0) {
    const Index& at = local[s.block_dim];
    address = add(address, one_block ? at : divided(true), stride);
    stride *= s.block + s.pad;
  }
  const int last = s.block_dim >= 0 ? -1 : static_cast<int>(local.size()) - 1;
  for (int d = static_cast<int>(local.size()) - 1; d >= 0; --d) {
    if (d == s.block_dim) continue;
    const bool groups = d == s.group_dim;
    address = add(address, groups ? divide(local[d], s.group, false, point) : local[d], stride);
    stride *= groups ? (s.shape[d] + s.group - 1) / s.group : s.shape[d] + (d == last ? s.pad : 0);
  }
  if (s.block_dim >= 0 && !one_block) {
    address = add(address, divided(false), stride);
  }
  cancel_quotients(address);
  if (s.offset == affine(0)) return address;
  return add(address, make_index(e_, s.offset, 0, 1), 1);
}

}  // namespace lw::lowering
