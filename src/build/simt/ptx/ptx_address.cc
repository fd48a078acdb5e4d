#include "src/build/simt/ptx/ptx_address.h"

#include <algorithm>

namespace lw {

std::string PtxPlace::text(int64_t more) const {
  const int64_t offset = bytes + more;
  return offset == 0 ? concat("[", base, "]") : concat("[", base, "+", offset, "]");
}

void PtxAddresses::define(int var, const std::string& word) {
  variables_[var] = {word, code_.depth()};
}

std::string PtxAddresses::sum(const std::string& start, bool wide, const Affine& a,
                              int64_t scale) {
  std::vector<Affine::Term> terms(a.terms.begin(), a.terms.end());
  const auto depth_of = [&](const Affine::Term& t) { return variables_[t.var].depth; };
  std::stable_sort(terms.begin(), terms.end(), [&](const Affine::Term& x, const Affine::Term& y) {
    return depth_of(x) < depth_of(y);
  });
  std::string sum = start;
  for (const Affine::Term& term : terms) {
    const int depth = depth_of(term);
    const std::string& v = variables_[term.var].word;
    const int64_t factor = term.coefficient * scale;
    const std::string key = concat(sum, wide ? " w " : " ", factor, " ", v);
    const auto found = known_[depth].find(key);
    if (found != known_[depth].end()) {
      sum = found->second;
      continue;
    }
    const std::string next = wide ? code_.wide() : code_.word();
    if (!wide && sum.empty()) {
      code_.line_at(depth, "mul.lo.s32 ", next, ", ", v, ", ", factor);
    } else if (!wide) {
      code_.line_at(depth, "mad.lo.s32 ", next, ", ", v, ", ", factor, ", ", sum);
    } else if (factor >= INT32_MIN && factor <= INT32_MAX) {
      code_.line_at(depth, "mad.wide.s32 ", next, ", ", v, ", ", factor, ", ", sum);
    } else {
      const std::string widened = code_.wide();
      code_.line_at(depth, "cvt.s64.s32 ", widened, ", ", v);
      code_.line_at(depth, "mad.lo.s64 ", next, ", ", widened, ", ", factor, ", ", sum);
    }
    known_[depth][key] = next;
    sum = next;
  }
  return sum;
}

std::string PtxAddresses::value(const Affine& a) {
  if (a.terms.empty()) {
    const std::string word = code_.word();
    code_.line("mov.b32 ", word, ", ", a.constant);
    return word;
  }
  // A single variable is its own word.
  const bool plain = a.terms.size() == 1 && a.terms[0].coefficient == 1;
  const std::string terms = plain ? variables_[a.terms[0].var].word : sum("", false, a, 1);
  if (a.constant == 0) return terms;
  const std::string word = code_.word();
  code_.line("add.s32 ", word, ", ", terms, ", ", a.constant);
  return word;
}

int PtxAddresses::depth_of(const Affine& a) const {
  int depth = 0;
  for (const Affine::Term& t : a.terms) depth = std::max(depth, variables_[t.var].depth);
  return depth;
}

std::string PtxAddresses::once(int depth, const std::string& key, const auto& make) {
  const auto found = known_[depth].find(key);
  if (found != known_[depth].end()) return found->second;
  const std::string word = code_.word();
  make(word);
  known_[depth][key] = word;
  return word;
}

// Multiples of kSwizzle change no bit of those that others are exchanged by: they are added last.
PtxPlace PtxAddresses::swizzled_place(const std::string& start, int64_t offset, const Affine& index,
                                      int64_t element_bytes) {
  constexpr int64_t kBits = 7 << 4;        // which bits 3 higher change
  const auto swizzled = [](int64_t bytes) { return bytes ^ (bytes >> 3 & kBits); };
  const int64_t bytes = index.constant * element_bytes + offset;
  const int64_t within = bytes & (kSwizzle - 1);
  Affine whole, rest;
  for (const Affine::Term& t : index.terms) {
    const Affine term = variable(t.var, t.coefficient * element_bytes);
    (t.coefficient * element_bytes % kSwizzle == 0 ? whole : rest) =
        (t.coefficient * element_bytes % kSwizzle == 0 ? whole : rest) + term;
  }
  const std::string base = sum(start, false, whole, 1);
  if (rest.is_constant()) return {base, bytes - within + swizzled(within)};
  const int depth = depth_of(rest);
  const std::string terms = sum("", false, rest, 1);
  const std::string exchanged = once(depth, concat("swizzled ", terms, " ", within),
                                     [&](const std::string& word) {
    const std::string all = code_.word(), high = code_.word(), bits = code_.word();
    code_.line_at(depth, "add.s32 ", all, ", ", terms, ", ", within);
    code_.line_at(depth, "shr.u32 ", high, ", ", all, ", 3");
    code_.line_at(depth, "and.b32 ", bits, ", ", high, ", ", kBits);
    code_.line_at(depth, "xor.b32 ", word, ", ", all, ", ", bits);
  });
  const int both = std::max(depth, depth_of(whole));
  const std::string at = once(both, concat(base, " + ", exchanged), [&](const std::string& word) {
    code_.line_at(both, "add.s32 ", word, ", ", base, ", ", exchanged);
  });
  return {at, bytes - within};
}

PtxPlace PtxAddresses::place(const std::string& start, bool wide, const Affine& index,
                             int64_t element_bytes) {
  PtxPlace place{sum(start, wide, index, element_bytes), index.constant * element_bytes};
  // An instruction has room for so much.
  constexpr int64_t kFarthest = (int64_t{1} << 23) - 1 - 256;
  if (place.bytes < -kFarthest || place.bytes > kFarthest) {
    const std::string moved = wide ? code_.wide() : code_.word();
    code_.line(wide ? "add.s64 " : "add.s32 ", moved, ", ", place.base, ", ", place.bytes);
    place = {moved, 0};
  }
  return place;
}

}  // namespace lw
