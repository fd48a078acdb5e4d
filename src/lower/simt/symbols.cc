#include "src/lower/simt/symbols.h"

#include <algorithm>

#include "src/expr/scalar.h"

namespace lw::lowering {
namespace {

constexpr int64_t kFar = int64_t{1} << 60;
constexpr int kDepth = 3;                  // of what a range looks into

int64_t saturated(__int128 value) {
  return static_cast<int64_t>(std::clamp<__int128>(value, -kFar, kFar));
}

void append(std::vector<int64_t>* key, const Affine& a) {
  key->push_back(a.constant);
  key->push_back(static_cast<int64_t>(a.terms.size()));
  for (const Affine::Term& t : a.terms) key->insert(key->end(), {t.var, t.coefficient});
}

}  // namespace

int Symbols::add(Interval range) {
  symbols_.emplace_back().range = range;
  return static_cast<int>(symbols_.size()) - 1;
}

Interval Symbols::range(const Affine& a) const { return range(a, kDepth); }

// min(x, y) is x + min(0, y - x), which is nearer where x cancels; so is d * floor(x / d), between
// x - d + 1 and x.
Interval Symbols::range(const Affine& a, int depth) const {
  Interval all = plain_range(a);
  if (depth == 0) return all;
  for (const Affine::Term& t : a.terms) {
    const Symbol& s = symbols_[t.var];
    if (s.op == Stmt::IntOp::kDiv && t.coefficient % s.divisor == 0) {
      const int64_t factor = t.coefficient / s.divisor;
      const Affine rest = a - variable(t.var, t.coefficient) + s.a * factor;
      if (rest.terms.size() > a.terms.size()) continue;
      const Interval r = range(rest, depth - 1);
      const int64_t less = -(s.divisor - 1) * factor;
      all.lo = std::max(all.lo, saturated(__int128{r.lo} + std::min<int64_t>(less, 0)));
      all.hi = std::min(all.hi, saturated(__int128{r.hi} + std::max<int64_t>(less, 0)));
      continue;
    }
    if (s.op != Stmt::IntOp::kMin && s.op != Stmt::IntOp::kMax) continue;
    for (const auto& [x, y] : {std::pair(s.a, s.b), std::pair(s.b, s.a)}) {
      const Affine rest = a - variable(t.var, t.coefficient) + x * t.coefficient;
      if (rest.terms.size() >= a.terms.size()) continue;
      Interval more = plain_range(y - x);
      if (s.op == Stmt::IntOp::kMin) {
        more = {std::min<int64_t>(more.lo, 0), std::min<int64_t>(more.hi, 0)};
      } else {
        more = {std::max<int64_t>(more.lo, 0), std::max<int64_t>(more.hi, 0)};
      }
      if (t.coefficient < 0) std::swap(more.lo, more.hi);
      const Interval r = range(rest, depth - 1);
      all.lo = std::max(all.lo, saturated(__int128{r.lo} + __int128{more.lo} * t.coefficient));
      all.hi = std::min(all.hi, saturated(__int128{r.hi} + __int128{more.hi} * t.coefficient));
    }
  }
  return all;
}

Interval Symbols::plain_range(const Affine& a) const {
  __int128 lo = a.constant, hi = a.constant;
  for (const Affine::Term& t : a.terms) {
    const Interval& r = symbols_[t.var].range;
    lo += __int128{t.coefficient} * (t.coefficient > 0 ? r.lo : r.hi);
    hi += __int128{t.coefficient} * (t.coefficient > 0 ? r.hi : r.lo);
  }
  return {saturated(lo), saturated(hi)};
}

Affine Symbols::made(Symbol symbol) {
  if (symbol.range.lo == symbol.range.hi) return affine(symbol.range.lo);
  std::vector<int64_t> key = {static_cast<int64_t>(symbol.op), symbol.divisor};
  append(&key, symbol.a);
  append(&key, symbol.b);
  const auto [it, fresh] = known_.try_emplace(key, static_cast<int>(symbols_.size()));
  if (fresh) symbols_.push_back(std::move(symbol));
  return variable(it->second);
}

Affine Symbols::value(Stmt::IntOp op, const Affine& a, const Affine& b, int64_t divisor) {
  const Interval ra = range(a);
  switch (op) {
    case Stmt::IntOp::kMin: case Stmt::IntOp::kMax: {
      const bool least = op == Stmt::IntOp::kMin;
      const Interval apart = range(a - b), rb = range(b);
      if (apart.hi <= 0) return least ? a : b;
      if (apart.lo >= 0) return least ? b : a;
      const Interval both = least ? Interval{std::min(ra.lo, rb.lo), std::min(ra.hi, rb.hi)}
                                  : Interval{std::max(ra.lo, rb.lo), std::max(ra.hi, rb.hi)};
      return made({both, op, a, b, 1});
    }
    case Stmt::IntOp::kDiv: {
      // Multiples of the divisor leave the rest alone; those that the rest is made of stay with it.
      Affine whole = affine(floor_div(a.constant, divisor));
      Affine rest = affine(floor_mod(a.constant, divisor));
      for (const Affine::Term& t : a.terms) {
        const bool apart = std::none_of(a.terms.begin(), a.terms.end(), [&](const Affine::Term& u) {
          return u.var != t.var && contains(u.var, t.var);
        });
        if (t.coefficient % divisor != 0 || !apart) rest = rest + variable(t.var, t.coefficient);
        else whole = whole + variable(t.var, t.coefficient / divisor);
      }
      const Interval r = range(rest);
      return whole + made({{floor_div(r.lo, divisor), floor_div(r.hi, divisor)}, op, rest, {},
                           divisor});
    }
    case Stmt::IntOp::kMod: {
      if (ra.lo >= 0 && ra.hi < divisor) return a;
      Affine least = affine(floor_mod(a.constant, divisor));
      for (const Affine::Term& t : a.terms) {
        if (t.coefficient % divisor == 0) continue;
        least = least + variable(t.var, floor_mod(t.coefficient, divisor));
      }
      const Interval r = range(least);
      if (r.lo >= 0 && r.hi < divisor) return least;
      return made({{0, divisor - 1}, op, least, {}, divisor});
    }
    default: return a;
  }
}

bool Symbols::contains(int symbol, int part) const {
  if (symbol == part) return true;
  const auto in = [&](const Affine& a) {
    return std::any_of(a.terms.begin(), a.terms.end(),
                       [&](const Affine::Term& t) { return contains(t.var, part); });
  };
  return in(symbols_[symbol].a) || in(symbols_[symbol].b);
}

Affine Symbols::replaced(const Affine& a, int symbol, const Affine& by) {
  Affine result = affine(a.constant);
  for (const Affine::Term& t : a.terms) {
    if (t.var == symbol) {
      result = result + by * t.coefficient;
    } else if (!contains(t.var, symbol)) {
      result = result + variable(t.var, t.coefficient);
    } else {
      const Symbol made_of = symbols_[t.var];
      result = result + value(made_of.op, replaced(made_of.a, symbol, by),
                              replaced(made_of.b, symbol, by), made_of.divisor) * t.coefficient;
    }
  }
  return result;
}

bool Symbols::is_below(int symbol, int64_t divisor) const {
  const Interval& r = symbols_[symbol].range;
  return r.lo >= 0 && r.hi < divisor;
}

// By how much one exceeds the other, of remainders of values that are a constant apart; or it does
// by `divisor` less.
std::optional<Symbols::Apart> Symbols::apart(int one, int other) const {
  for (const int symbol : {one, other}) {
    const Symbol& s = symbols_[symbol];
    if (s.op != Stmt::IntOp::kMod) continue;
    // What is less than the divisor is its own remainder.
    const auto dividend = [&](int of) -> std::optional<Affine> {
      const Symbol& r = symbols_[of];
      if (r.op == s.op && r.divisor == s.divisor) return r.a;
      if (is_below(of, s.divisor)) return variable(of);
      return std::nullopt;
    };
    const std::optional<Affine> a = dividend(one), b = dividend(other);
    if (!a.has_value() || !b.has_value() || !(*a - *b).is_constant()) continue;
    return Apart{floor_mod((*a - *b).constant, s.divisor), s.divisor};
  }
  return std::nullopt;
}

int Symbols::base_of(const Affine& a) const {
  for (const Affine::Term& t : a.terms) {
    const Symbol& s = symbols_[t.var];
    if (s.op == Stmt::IntOp::kAffine) return t.var;
    const int base = std::max(base_of(s.a), base_of(s.b));
    if (base >= 0) return base;
  }
  return -1;
}

std::vector<Affine> Symbols::cases(const Affine& a, int64_t most) {
  std::vector<Affine> all;
  const auto add = [&](const Affine& one, int64_t share) {
    for (const Affine& found : cases(one, share)) {
      if (std::find(all.begin(), all.end(), found) == all.end()) all.push_back(found);
    }
  };
  for (const Affine::Term& t : a.terms) {
    for (const Affine::Term& u : a.terms) {
      if (t.coefficient < 0 || u.coefficient > 0) continue;
      const std::optional<Apart> by = apart(t.var, u.var);
      if (!by.has_value()) continue;
      const int64_t paired = std::min(t.coefficient, -u.coefficient);
      const Affine rest = a - variable(t.var, paired) + variable(u.var, paired);
      add(rest + affine(paired * by->ahead), most);
      add(rest + affine(paired * (by->ahead - by->divisor)), most);
      return all;
    }
  }
  const int base = base_of(a);
  if (base < 0) return {a};
  const Interval range = symbols_[base].range;
  const int64_t share = range.hi - range.lo >= most ? 0 : most / (range.hi - range.lo + 1);
  if (share == 0) return {a};
  for (int64_t n = range.lo; n <= range.hi; ++n) add(replaced(a, base, affine(n)), share);
  return all;
}

}  // namespace lw::lowering
