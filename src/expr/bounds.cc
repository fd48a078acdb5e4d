// Intervals of index expressions.
//
// An index is first written as a linear form over its atoms (axes, quotients, remainders, gathers),
// which makes `i + r - i` exact. Its interval is the sum of its terms' intervals. The conditions of
// the selects around a read are facts g >= 0, used twice: each narrows the intervals of its axes,
// and a form F is also bounded through F = k*g + rest >= min(rest), which proves reads such as
// where(j <= i, X[i - j], 0) that intervals of single axes cannot. Arithmetic is in 128 bits;
// whatever leaves i64 answers "anything", so wrapping is never mistaken for a small index.
#include "src/expr/bounds.h"

#include <algorithm>
#include <climits>

namespace lw {
namespace {

using Wide = __int128;

void add_term(const Expr& atom, int64_t factor, Linear* form) {
  for (size_t i = 0; i < form->terms.size(); ++i) {
    if (!same(form->terms[i].atom, atom)) continue;
    int64_t& sum = form->terms[i].factor;
    sum = add_wrapping(sum, factor);
    if (sum == 0) form->terms.erase(form->terms.begin() + static_cast<long>(i));
    return;
  }
  if (factor != 0) form->terms.push_back({atom, factor});
}

// a + factor * b, or false when a factor overflows.
bool add_scaled(const Linear& a, const Linear& b, int64_t factor, Linear* result) {
  *result = a;
  for (const Linear::Term& term : b.terms) {
    int64_t product;
    if (__builtin_mul_overflow(term.factor, factor, &product)) return false;
    int64_t sum;
    for (const Linear::Term& have : a.terms) {
      if (same(have.atom, term.atom) && __builtin_add_overflow(have.factor, product, &sum)) {
        return false;
      }
    }
    add_term(term.atom, product, result);
  }
  int64_t product;
  return !__builtin_mul_overflow(b.constant, factor, &product) &&
         !__builtin_add_overflow(a.constant, product, &result->constant);
}

struct WideInterval {
  Wide lo, hi;
};
bool fits(const WideInterval& x) { return x.lo >= INT64_MIN && x.hi <= INT64_MAX; }

// Facts are used at the outer two levels of quotients and remainders, for short forms, and only
// the first few: each use evaluates the atoms below again, and nesting must not make that explode.
constexpr int kMaxLevel = 1;
constexpr size_t kMaxTerms = 8, kMaxFacts = 8;

WideInterval sum_of_terms(const Linear& form, const Facts& facts, int level);
Interval enclose(const Expr& index, const Facts& facts, int level);

// The interval of a form in exact arithmetic, tightened by the facts.
WideInterval exact_interval(const Linear& form, const Facts& facts, int level) {
  WideInterval best = sum_of_terms(form, facts, level);
  if (level > kMaxLevel || form.terms.size() > kMaxTerms) return best;
  for (const Linear& fact : facts.nonnegative) {
    for (const Linear::Term& known : fact.terms) {
      for (const Linear::Term& term : form.terms) {
        if (term.factor % known.factor != 0 || !same(term.atom, known.atom)) continue;
        const int64_t ratio = term.factor / known.factor;
        Linear rest;
        if (ratio == INT64_MIN || !add_scaled(form, fact, -ratio, &rest)) continue;
        WideInterval bound = sum_of_terms(rest, facts, level);  // form = ratio * fact + rest
        if (ratio > 0) best.lo = std::max(best.lo, bound.lo);
        if (ratio < 0) best.hi = std::min(best.hi, bound.hi);
      }
    }
  }
  return best;
}

Interval atom_interval(const Expr& e, const Facts& facts, int level);

WideInterval sum_of_terms(const Linear& form, const Facts& facts, int level) {
  constexpr Wide kLimit = Wide{1} << 100;  // far from overflow of the next sum
  WideInterval total = {form.constant, form.constant};
  for (const Linear::Term& term : form.terms) {
    Interval range = atom_interval(term.atom, facts, level);
    Wide a = Wide{range.lo} * term.factor, b = Wide{range.hi} * term.factor;
    total.lo = std::max(total.lo + std::min(a, b), -kLimit);
    total.hi = std::min(total.hi + std::max(a, b), kLimit);
  }
  return total;
}

Interval quotient_interval(ExprOp op, Interval a, int64_t divisor) {
  if (divisor <= 0) return kWholeRange;
  int64_t first = floor_div(a.lo, divisor), last = floor_div(a.hi, divisor);
  if (op == ExprOp::kDiv) return {first, last};
  if (first == last) return {floor_mod(a.lo, divisor), floor_mod(a.hi, divisor)};
  return {0, divisor - 1};
}

Interval atom_interval(const Expr& e, const Facts& facts, int level) {
  auto operand = [&](size_t i) { return enclose(e->args[i], facts, level + 1); };
  switch (e->op) {
    case ExprOp::kAxis: {
      const size_t axis = static_cast<size_t>(e->index);
      return axis < facts.axes.size() ? facts.axes[axis] : kWholeRange;
    }
    case ExprOp::kDiv:
    case ExprOp::kMod:
      if (!is_const(e->args[1])) return kWholeRange;
      return quotient_interval(e->op, operand(0), e->args[1]->integer);
    case ExprOp::kMin: {
      Interval a = operand(0), b = operand(1);
      return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
    }
    case ExprOp::kMax: {
      Interval a = operand(0), b = operand(1);
      return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
    }
    case ExprOp::kAbs: {
      const Interval a = operand(0);
      if (a.lo == INT64_MIN) return kWholeRange;
      if (a.lo >= 0) return a;
      return {std::max<int64_t>(-a.hi, 0), std::max(-a.lo, a.hi)};
    }
    case ExprOp::kSelect: {
      Interval a = operand(1), b = operand(2);
      return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)};
    }
    case ExprOp::kMul: {
      Interval a = operand(0), b = operand(1);
      Wide ends[] = {Wide{a.lo} * b.lo, Wide{a.lo} * b.hi, Wide{a.hi} * b.lo, Wide{a.hi} * b.hi};
      WideInterval range = {*std::min_element(ends, ends + 4), *std::max_element(ends, ends + 4)};
      if (!fits(range)) return kWholeRange;
      return {static_cast<int64_t>(range.lo), static_cast<int64_t>(range.hi)};
    }
    case ExprOp::kCast: {
      const Type from = e->args[0]->type;
      if (is_float(from)) return kWholeRange;
      IntegerRange range = integer_range(from);
      return {range.lo, range.hi};
    }
    default: return kWholeRange;
  }
}

Interval enclose(const Expr& index, const Facts& facts, int level) {
  if (index->op == ExprOp::kConst) return {index->integer, index->integer};
  if (index->op == ExprOp::kAxis && facts.nonnegative.empty()) {
    return atom_interval(index, facts, level);
  }
  WideInterval range = exact_interval(linear_form(index), facts, level);
  if (!fits(range)) return kWholeRange;
  return {static_cast<int64_t>(range.lo), static_cast<int64_t>(range.hi)};
}

// fact >= 0 bounds each axis in it by the extremes of the rest.
void narrow_axes(const Linear& fact, Facts* facts) {
  for (const Linear::Term& term : fact.terms) {
    if (term.atom->op != ExprOp::kAxis || term.factor == INT64_MIN) continue;
    Linear rest = fact;
    add_term(term.atom, -term.factor, &rest);
    WideInterval others = sum_of_terms(rest, *facts, 0);
    if (!fits(others) || others.hi == INT64_MIN) continue;
    Interval& axis = facts->axes[static_cast<size_t>(term.atom->index)];
    const int64_t slack = static_cast<int64_t>(-others.hi);  // factor * axis >= slack
    if (term.factor > 0) axis.lo = std::max(axis.lo, -floor_div(-slack, term.factor));
    if (term.factor < 0) axis.hi = std::min(axis.hi, floor_div(-slack, -term.factor));
  }
}

// left - right - margin >= 0, if none of it can overflow (else the fact would be about wrapped
// values).
void assume_at_least(const Expr& left, const Expr& right, int64_t margin, Facts* facts) {
  if (facts->nonnegative.size() >= kMaxFacts) return;
  Linear a = linear_form(left), b = linear_form(right), fact;
  if (!fits(sum_of_terms(a, *facts, 0)) || !fits(sum_of_terms(b, *facts, 0))) return;
  if (!add_scaled(a, b, -1, &fact)) return;
  if (__builtin_sub_overflow(fact.constant, margin, &fact.constant)) return;
  if (!fits(sum_of_terms(fact, *facts, 0))) return;
  facts->nonnegative.push_back(fact);
  for (const Linear& known : std::vector<Linear>(facts->nonnegative)) narrow_axes(known, facts);
}

}  // namespace

bool same(const Expr& a, const Expr& b) {
  if (a == b) return true;
  if (a->op != b->op || a->type != b->type || a->index != b->index || a->integer != b->integer ||
      a->number != b->number || a->args.size() != b->args.size()) {
    return false;
  }
  for (size_t i = 0; i < a->args.size(); ++i) {
    if (!same(a->args[i], b->args[i])) return false;
  }
  return true;
}

Linear linear_form(const Expr& index) {
  Linear form;
  int left = INT_MAX;
  add_summands(index, 1, form.constant, left,
               [&](const Expr& atom, int64_t factor) { add_term(atom, factor, &form); });
  return form;
}

Facts facts_of(const std::vector<Axis>& axes) {
  Facts facts;
  for (const Axis& axis : axes) facts.axes.push_back({0, axis.extent - 1});
  return facts;
}

void assume(const Expr& condition, bool holds, Facts* facts) {
  const ExprOp op = condition->op;
  if (op == ExprOp::kNot) return assume(condition->args[0], !holds, facts);
  if (op == (holds ? ExprOp::kAnd : ExprOp::kOr)) {
    assume(condition->args[0], holds, facts);
    assume(condition->args[1], holds, facts);
    return;
  }
  if (!is_comparison(op) || condition->args[0]->type != Type::kI64) return;
  const Expr &a = condition->args[0], &b = condition->args[1];
  if (op == (holds ? ExprOp::kEq : ExprOp::kNe)) {
    assume_at_least(a, b, 0, facts);
    assume_at_least(b, a, 0, facts);
  }
  if (op == (holds ? ExprOp::kGe : ExprOp::kLt)) assume_at_least(a, b, 0, facts);
  if (op == (holds ? ExprOp::kGt : ExprOp::kLe)) assume_at_least(a, b, 1, facts);
  if (op == (holds ? ExprOp::kLe : ExprOp::kGt)) assume_at_least(b, a, 0, facts);
  if (op == (holds ? ExprOp::kLt : ExprOp::kGe)) assume_at_least(b, a, 1, facts);
}

namespace {

// Whether the facts exclude each other, so that what they guard is never evaluated. Nothing else
// may be asked of such facts: arithmetic on empty intervals answers anything.
bool unreachable(const Facts& facts) {
  for (const Interval& axis : facts.axes) {
    if (axis.lo > axis.hi) return true;
  }
  for (const Linear& fact : facts.nonnegative) {
    if (sum_of_terms(fact, facts, 0).hi < 0) return true;
  }
  return false;
}

}  // namespace

Interval interval_of(const Expr& index, const Facts& facts) { return enclose(index, facts, 0); }

Interval bounds(const Expr& index, const std::vector<Interval>& axis_range) {
  return interval_of(index, Facts{axis_range, {}});
}

bool is_gather(const Expr& index) {
  bool reads = false;
  visit(index, [&](const ExprNode& e) { reads |= e.op == ExprOp::kRead; });
  return reads;
}

namespace {

// Padded reads may leave the tensor, but by less than this: no arithmetic on them can overflow.
constexpr int64_t kFarAway = int64_t{1} << 62;

struct FaultFinder {
  const ShapeOf& shape_of;
  std::vector<ReadFault> faults;

  void check(const Expr& read, bool padded, const Facts& facts) {
    const std::vector<int64_t>& shape = shape_of(read->index);
    for (size_t d = 0; d < read->args.size() && d < shape.size(); ++d) {
      if (is_gather(read->args[d])) continue;
      Interval range = interval_of(read->args[d], facts);
      if (range.lo > range.hi) continue;  // as far as intervals tell, never evaluated
      const bool safe = padded ? range.lo >= -kFarAway && range.hi <= kFarAway
                               : range.lo >= 0 && range.hi < shape[d];
      if (!safe) faults.push_back({read.get(), static_cast<int>(d), range, shape[d]});
    }
  }

  void walk(const Expr& e, const Facts& facts) {
    if (e->op == ExprOp::kSelect) {
      walk(e->args[0], facts);
      for (bool holds : {true, false}) {
        Facts inside = facts;
        assume(e->args[0], holds, &inside);
        if (!unreachable(inside)) walk(e->args[holds ? 1 : 2], inside);
      }
      return;
    }
    if (e->op == ExprOp::kRead) check(e, false, facts);
    if (e->op == ExprOp::kPad) {
      check(e->args[0], true, facts);
      for (const Expr& index : e->args[0]->args) walk(index, facts);
      return walk(e->args[1], facts);
    }
    for (const Expr& arg : e->args) walk(arg, facts);
  }
};

}  // namespace

std::vector<ReadFault> find_read_faults(const Expr& body, const Facts& facts,
                                        const ShapeOf& shape_of) {
  FaultFinder finder{shape_of, {}};
  finder.walk(body, facts);
  return std::move(finder.faults);
}

}  // namespace lw
