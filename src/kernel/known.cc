#include "src/kernel/known.h"

#include <algorithm>
#include <cstdlib>

namespace lw {
namespace {

using Wide = __int128;
constexpr int kDepth = 3;
constexpr int kTries = 100;                // more than lowering makes (lower/emitter.cc)
constexpr int64_t kFactor = int64_t{1} << 30, kSum = int64_t{1} << 60;

bool is_below(const Affine& a, int64_t most) {
  const auto within = [&](int64_t x) { return x < most && x > -most; };
  return within(a.constant) &&
         std::all_of(a.terms.begin(), a.terms.end(),
                     [&](const Affine::Term& t) { return within(t.coefficient); });
}

}  // namespace

Known::Range Known::range(const Affine& a) const {
  Wide lo = a.constant, hi = a.constant;
  for (const Affine::Term& t : a.terms) {
    const Range r = *ranges[t.var];
    lo += Wide{t.coefficient} * (t.coefficient > 0 ? r.lo : r.hi);
    hi += Wide{t.coefficient} * (t.coefficient > 0 ? r.hi : r.lo);
  }
  const Wide limit = INT64_MAX;
  return {static_cast<int64_t>(std::max(lo, -limit)), static_cast<int64_t>(std::min(hi, limit))};
}

bool Known::at_most(const Affine& e, int64_t limit) const { return by_facts(e, limit, kDepth); }

bool Known::by_facts(const Affine& e, int64_t limit, int depth) const {
  if (depth == 0) return range(e).hi <= limit;
  int tries = kTries;
  if (by_parts(e, limit, tries)) return true;
  for (const Affine::Term& t : e.terms) {
    for (const Affine& fact : facts) {
      for (const Affine::Term& u : fact.terms) {
        if (u.var != t.var || (u.coefficient > 0) == (t.coefficient > 0)) continue;
        const int64_t c = std::abs(t.coefficient), d = std::abs(u.coefficient);
        if (c > kFactor || d > kFactor || std::abs(limit) > kSum / d) continue;
        if (by_facts(e * d + fact * c, limit * d, depth - 1)) return true;
      }
    }
  }
  return false;
}

// By the interval of e after the greatest and least of two in it have become either of these. Where
// it matters which, both must do, and nothing is lost by that; else one does, which depends on what
// else there is: all are tried, in `left` tries together.
bool Known::by_parts(const Affine& e, int64_t limit, int& left) const {
  if (range(e).hi <= limit) return true;
  if (!is_below(e, kSum)) return false;
  const auto with = [&](const Affine::Term& t, const Affine& part) {
    if (std::abs(t.coefficient) >= kFactor || !is_below(part, kFactor) || --left <= 0) return false;
    return by_parts(e - variable(t.var, t.coefficient) + part * t.coefficient, limit, left);
  };
  for (const Affine::Term& t : e.terms) {
    const std::optional<Extreme>& of = extremes[t.var];
    if (of && of->greatest == (t.coefficient > 0)) return with(t, of->a) && with(t, of->b);
  }
  return std::any_of(e.terms.begin(), e.terms.end(), [&](const Affine::Term& t) {
    const std::optional<Extreme>& of = extremes[t.var];
    return of && (with(t, of->a) || with(t, of->b));
  });
}

}  // namespace lw
