#include "src/lower/simt/footprint.h"

#include <algorithm>

namespace lw::lowering {
namespace {

constexpr int kSeveral = -1;
// Combinations of what symbols are that are looked at one by one: of two parts, of two accesses.
constexpr int64_t kMostValues = 64, kMostTries = 512;

int joined(int one, int other) { return one == other ? one : kSeveral; }

void push(std::vector<Touched>* list, int64_t lo, int64_t hi, int item) {
  if (lo >= hi) return;
  if (!list->empty() && list->back().hi == lo && list->back().item == item) {
    list->back().hi = hi;
  } else {
    list->push_back({lo, hi, item});
  }
}

// Pieces that are apart, each with who touches it.
std::vector<Touched> apart(std::vector<Touched> all) {
  std::sort(all.begin(), all.end(), [](const Touched& a, const Touched& b) {
    return std::pair(a.lo, a.item) < std::pair(b.lo, b.item);
  });
  std::vector<Touched> done, over;
  for (const Touched& t : all) {
    over.clear();                          // what reaches into t, which begins no earlier
    while (!done.empty() && done.back().hi > t.lo) {
      over.push_back(done.back());
      done.pop_back();
    }
    int64_t at = t.lo;
    for (auto o = over.rbegin(); o != over.rend(); ++o) {
      push(&done, o->lo, t.lo, o->item);
      push(&done, at, std::min(o->lo, t.hi), t.item);
      const int64_t from = std::max(o->lo, t.lo), to = std::min(o->hi, t.hi);
      push(&done, from, to, joined(o->item, t.item));
      push(&done, std::max(from, t.hi), o->hi, o->item);
      at = std::max(at, o->hi);
    }
    push(&done, at, t.hi, t.item);
  }
  return done;
}

// Whether different items touch the same, `a` being moved by `shift`.
bool meet(const std::vector<Touched>& a, int64_t shift, const std::vector<Touched>& b) {
  for (size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    const int64_t lo = std::max(a[i].lo + shift, b[k].lo);
    const int64_t hi = std::min(a[i].hi + shift, b[k].hi);
    if (lo < hi && joined(a[i].item, b[k].item) == kSeveral) return true;
    ++(a[i].hi + shift < b[k].hi ? i : k);
  }
  return false;
}

// Whether different items may touch the same, `a` being moved by anything in the range.
bool may_reach(const std::vector<Touched>& a, const Interval& shift,
               const std::vector<Touched>& b) {
  if (a.empty() || b.empty()) return false;
  if (a.back().hi + shift.hi <= b.front().lo || b.back().hi <= a.front().lo + shift.lo) {
    return false;
  }
  const int item = a.front().item;
  const auto same = [&](const Touched& t) { return joined(t.item, item) != kSeveral; };
  return !std::all_of(a.begin(), a.end(), same) || !std::all_of(b.begin(), b.end(), same);
}

Affine bound(Symbols& symbols, Affine a, const Binding& binding) {
  for (const auto& [symbol, by] : binding) a = symbols.replaced(a, symbol, by);
  return a;
}

// `tries`: values of symbols that may be looked at, and how many are left.
bool parts_may_meet(Symbols& symbols, const Part& a, const Part& b, const Affine& shift,
                    int64_t* tries) {
  const auto each = [&](const auto& touch) {
    return touch(a.writes, b.writes) || touch(a.writes, b.reads) || touch(a.reads, b.writes);
  };
  const Interval whole = symbols.range(shift);
  if (!each([&](const auto& x, const auto& y) { return may_reach(x, whole, y); })) return false;
  const std::vector<Affine> cases = symbols.cases(shift, std::min(kMostValues, *tries));
  *tries -= static_cast<int64_t>(cases.size()) - 1;
  return std::any_of(cases.begin(), cases.end(), [&](const Affine& by) {
    const Interval range = symbols.range(by);
    return each([&](const auto& x, const auto& y) {
      return by.is_constant() ? meet(x, by.constant, y) : may_reach(x, range, y);
    });
  });
}

}  // namespace

void Footprint::add(int buffer, bool write, const Affine& lo, int64_t elements, int item) {
  std::vector<Part>& parts = parts_[buffer];
  const auto here = [&](const Part& part) { return part.at.terms == lo.terms; };
  if (latest_ >= parts.size() || !here(parts[latest_])) {
    latest_ = std::find_if(parts.begin(), parts.end(), here) - parts.begin();
    if (latest_ == parts.size()) {
      parts.emplace_back().at = lo;
      parts.back().at.constant = 0;
    }
  }
  std::vector<Touched>& list = write ? parts[latest_].writes : parts[latest_].reads;
  const int64_t begin = lo.constant, end = begin + elements;
  const bool follows = !list.empty() && list.back().item == item && list.back().lo <= begin &&
                       list.back().hi >= begin;
  if (follows) list.back().hi = std::max(list.back().hi, end);
  else list.push_back({begin, end, item});
}

void Footprint::settle() {
  for (auto& [buffer, parts] : parts_) {
    for (Part& part : parts) {
      part.reads = apart(std::move(part.reads));
      part.writes = apart(std::move(part.writes));
    }
  }
}

int Footprint::written_by_several(Symbols& symbols) const {
  int64_t tries = kMostTries;
  for (const auto& [buffer, parts] : parts_) {
    for (size_t p = 0; p < parts.size(); ++p) {
      const std::vector<Touched>& writes = parts[p].writes;
      if (std::any_of(writes.begin(), writes.end(),
                      [](const Touched& t) { return t.item == kSeveral; })) {
        return buffer;
      }
      for (size_t q = 0; q < p; ++q) {
        const Part own = {parts[p].at, {}, writes}, other = {parts[q].at, {}, parts[q].writes};
        if (parts_may_meet(symbols, own, other, own.at - other.at, &tries)) return buffer;
      }
    }
  }
  return -1;
}

bool may_meet(Symbols& symbols, const Footprint& a, const Binding& of_a, const Footprint& b,
              const Binding& of_b) {
  int64_t tries = kMostTries;
  for (const auto& [buffer, parts] : a.parts()) {
    const auto others = b.parts().find(buffer);
    if (others == b.parts().end()) continue;
    for (const Part& p : parts) {
      const Affine at = bound(symbols, p.at, of_a);
      for (const Part& q : others->second) {
        if (p.writes.empty() && q.writes.empty()) continue;
        const Affine shift = at - bound(symbols, q.at, of_b);
        if (parts_may_meet(symbols, p, q, shift, &tries)) return true;
      }
    }
  }
  return false;
}

}  // namespace lw::lowering
