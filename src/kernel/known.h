// What a walk through a kernel knows of the integer variables in scope, and what follows of affine
// forms of them. Internal to src/kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/kernel/kernel.h"

namespace lw {

struct Known {
  struct Range { int64_t lo, hi; };
  // A variable that is the greatest, or the least, of two.
  struct Extreme {
    bool greatest;
    Affine a, b;
  };
  std::vector<std::optional<Range>> ranges;      // by variable; empty: not in scope
  std::vector<std::optional<Extreme>> extremes;  // by variable
  std::vector<Affine> facts;                     // each >= 0 here

  // REQUIRES, as of all below: the variables are in scope.
  Range range(const Affine& a) const;

  // Whether e <= limit follows: from the interval of e, or else by adding a fact that cancels one of
  // e's variables (with c * x in e and d * x in the fact f of opposite sign, e <= limit follows from
  // |d| e + |c| f <= |d| limit), or where one is the greatest or least of two, by either of these, to
  // a small depth.
  bool at_most(const Affine& e, int64_t limit) const;

 private:
  bool by_facts(const Affine& e, int64_t limit, int depth) const;
  bool by_parts(const Affine& e, int64_t limit, int& left) const;
};

}  // namespace lw
