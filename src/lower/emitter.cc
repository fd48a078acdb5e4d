#include "src/lower/emitter.h"

#include <algorithm>

#include "schedules/targets/family.h"
#include "src/base/check.h"
#include "src/expr/scalar.h"

namespace lw::lowering {

void Emitter::count(int64_t more) {
  statements += more;
  if (failure.ok()) failure = stop.status("lowering");
  if (statements > options.max_statements && failure.ok()) {
    failure = infeasible("the unrolled program is too large");
  }
}

Stmt& Emitter::emit(Stmt&& stmt) {
  count(1);
  if (counting) out->clear();
  out->push_back(std::move(stmt));
  return out->back();
}

void Emitter::emit(Op op, int64_t integer) {
  Stmt stmt;
  stmt.op = op;
  stmt.integer = integer;
  emit(std::move(stmt));
}

void Emitter::emit_into(std::vector<Stmt>& list, absl::FunctionRef<void()> body) {
  std::vector<Stmt>* const outside = out;
  out = &list;
  body();
  out = outside;
}

int Emitter::new_register(Type type, int lanes) {
  kernel.registers.push_back({type, lanes});
  return static_cast<int>(kernel.registers.size()) - 1;
}

int Emitter::new_var(Interval range) {
  var_range.push_back(range);
  return kernel.variables++;
}

Affine Emitter::emit_int(Stmt::IntOp op, const Affine& a, const Affine& b, int64_t divisor) {
  const Interval ra = lowering::range_of(*this, a), rb = lowering::range_of(*this, b);
  Interval range = ra;
  switch (op) {
    case Stmt::IntOp::kDiv: range = {floor_div(ra.lo, divisor), floor_div(ra.hi, divisor)}; break;
    case Stmt::IntOp::kMod: range = {0, divisor - 1}; break;
    case Stmt::IntOp::kMin: range = {std::min(ra.lo, rb.lo), std::min(ra.hi, rb.hi)}; break;
    case Stmt::IntOp::kMax: range = {std::max(ra.lo, rb.lo), std::max(ra.hi, rb.hi)}; break;
    default: break;
  }
  if (range.lo == range.hi) return affine(range.lo);
  Stmt stmt;
  stmt.kind = Stmt::Kind::kInt;
  stmt.int_op = op;
  stmt.var = new_var(range);
  stmt.a = a;
  stmt.b = b;
  stmt.divisor = divisor;
  const int var = stmt.var;
  const bool extreme = op == Stmt::IntOp::kMin || op == Stmt::IntOp::kMax;
  if (extreme && nest.target->part.family()->name == std::string_view("cpu"))
    extremes[var] = {op == Stmt::IntOp::kMax, a, b};
  emit(std::move(stmt));
  return variable(var);
}

Affine Emitter::clamp(const Affine& a, int64_t extent) {
  const Affine above = emit_int(Stmt::IntOp::kMax, a, affine(0), 1);
  return emit_int(Stmt::IntOp::kMin, above, affine(extent - 1), 1);
}

Affine Emitter::item() {
  if (items == 1) return affine(0);
  Stmt stmt;
  stmt.kind = Stmt::Kind::kInt;
  stmt.int_op = Stmt::IntOp::kItem;
  const int var = stmt.var = new_var({0, items - 1});
  emit(std::move(stmt));
  return variable(var);
}

int Emitter::stage_buffer(int stage, Type type, int64_t elements) {
  auto [it, fresh] = stage_buffers_.try_emplace(stage, -1);
  if (fresh) {
    it->second = static_cast<int>(kernel.buffers.size());
    Buffer buffer;
    buffer.name = nest.stages[stage].name;
    buffer.type = type;
    buffer.scope = nest.stages[stage].memory >= 0              ? Scope::kManaged
                   : nest.stages[stage].place == Place::kPrepack ? Scope::kPacked
                   : in_parallel                                 ? Scope::kPrivate
                                                                 : Scope::kWorkspace;
    buffer.memory = nest.stages[stage].memory;
    buffer.swizzled = nest.stages[stage].swizzled;
    kernel.buffers.push_back(buffer);
  }
  Buffer& buffer = kernel.buffers[it->second];
  buffer.elements = std::max(buffer.elements, elements);
  return it->second;
}

Affine Emitter::slot(int stage, int buffer, int64_t elements, const Affine& iteration) {
  int64_t& each = slot_elements_[stage];
  each = std::max(each, elements);
  const int64_t slots = nest.stages[stage].slots;
  int64_t& all = kernel.buffers[buffer].elements;
  all = std::max(all, slots * each);
  if (iteration.is_constant()) return affine(iteration.constant % slots * each);
  return emit_int(Stmt::IntOp::kMod, iteration, {}, slots) * each;
}

// Ranges of unknown values are huge: arithmetic on ranges saturates instead of overflowing.
static int64_t saturate(__int128 value) {
  constexpr __int128 kLimit = int64_t{1} << 60;
  return static_cast<int64_t>(std::clamp<__int128>(value, -kLimit, kLimit));
}

// By the ranges of its variables; where `extremes` of these may be told apart, of the first that is
// one of two, by what both lead to: 24 i - max(24 i - 1, 0) is 1 or 24 i, of which the less.
static Interval range_within(const Emitter& e, const Affine& a, int extremes) {
  Interval range{a.constant, a.constant};
  for (const Affine::Term& term : a.terms) {
    const Interval& v = e.var_range[term.var];
    const __int128 c = term.coefficient;
    range.lo = saturate(range.lo + c * (c > 0 ? v.lo : v.hi));
    range.hi = saturate(range.hi + c * (c > 0 ? v.hi : v.lo));
  }
  if (extremes == 0 || a.terms.size() < 2) return range;
  for (const Affine::Term& term : a.terms) {
    const auto it = e.extremes.find(term.var);
    if (it == e.extremes.end()) continue;
    const Affine rest = a - variable(term.var, term.coefficient);
    const Interval one = range_within(e, rest + it->second.a * term.coefficient, extremes - 1);
    const Interval two = range_within(e, rest + it->second.b * term.coefficient, extremes - 1);
    const bool greatest = it->second.greatest == (term.coefficient > 0);
    const auto either = [&](int64_t x, int64_t y) {
      return greatest ? std::max(x, y) : std::min(x, y);
    };
    range.lo = std::max(range.lo, either(one.lo, two.lo));
    range.hi = std::min(range.hi, either(one.hi, two.hi));
    break;
  }
  return range;
}

Interval range_of(const Emitter& e, const Affine& a) {
  constexpr int kExtremes = 3;
  return range_within(e, a, kExtremes);
}

bool known_at_least_zero(const Emitter& e, const Affine& a) {
  if (range_of(e, a).lo >= 0) return true;
  return std::any_of(e.assumed.begin(), e.assumed.end(), [&](const Affine& known) {
    const Affine more = a - known;
    return more.is_constant() && more.constant >= 0;
  });
}

Index make_index(const Emitter& e, const Affine& base, int64_t lane, int lanes) {
  Index index;
  index.base = base;
  index.lane = lanes > 1 ? lane : 0;
  index.range = range_of(e, base);
  index.range.lo += std::min<int64_t>(0, index.lane * (lanes - 1));
  index.range.hi += std::max<int64_t>(0, index.lane * (lanes - 1));
  return index;
}

Index scale(const Index& a, int64_t factor) {
  Index r;
  if (factor == 0) return r;
  r.base = a.base * factor;
  r.lane = a.lane * factor;
  for (const Index::Term& t : a.terms) r.terms.push_back({t.reg, t.coefficient * factor});
  const int64_t lo = saturate(static_cast<__int128>(a.range.lo) * factor);
  const int64_t hi = saturate(static_cast<__int128>(a.range.hi) * factor);
  r.range = factor > 0 ? Interval{lo, hi} : Interval{hi, lo};
  return r;
}

Index add(const Index& a, const Index& b, int64_t factor) {
  const Index s = scale(b, factor);
  Index r;
  r.base = a.base + s.base;
  r.lane = a.lane + s.lane;
  r.terms = a.terms;
  for (const Index::Term& t : s.terms) {
    auto same = std::find_if(r.terms.begin(), r.terms.end(),
                             [&](const Index::Term& x) { return x.reg == t.reg; });
    if (same == r.terms.end()) {
      r.terms.push_back(t);
    } else if ((same->coefficient += t.coefficient) == 0) {
      r.terms.erase(same);
    }
  }
  r.range = {saturate(static_cast<__int128>(a.range.lo) + s.range.lo),
             saturate(static_cast<__int128>(a.range.hi) + s.range.hi)};
  return r;
}

}  // namespace lw::lowering
