// Integers that a group's items compute alike: sums of symbols, where what differs from item to
// item is a number. Internal to src/lower/simt.
//
// A symbol is the number of the group, a loop's, or what division, remainder, min or max make of
// others. Equal computations give equal symbols, so that two sums are the same number wherever
// their symbols cancel.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "src/expr/expr.h"
#include "src/kernel/kernel.h"

namespace lw::lowering {

class Symbols {
 public:
  int add(Interval range);                 // one that nothing is known of but its range
  Interval range(const Affine& a) const;   // as near as is found, also by what others are made of
  // As Stmt::IntOp says; a number, or another sum, where that is known.
  Affine value(Stmt::IntOp op, const Affine& a, const Affine& b, int64_t divisor);
  // With `by` instead of the symbol, also in what is made of it.
  Affine replaced(const Affine& a, int symbol, const Affine& by);
  // Sums one of which `a` is, without the remainders in it of values that are a constant apart:
  // these are so many apart, or `divisor` less; numbers, where symbols have at most `most` values
  // together.
  std::vector<Affine> cases(const Affine& a, int64_t most);

 private:
  struct Symbol {
    Interval range;
    Stmt::IntOp op = Stmt::IntOp::kAffine;  // kAffine: made of nothing
    Affine a, b;
    int64_t divisor = 1;
  };
  int base_of(const Affine& a) const;      // a symbol that is made of nothing; -1: none
  Affine made(Symbol symbol);
  Interval plain_range(const Affine& a) const;
  Interval range(const Affine& a, int depth) const;
  bool contains(int symbol, int part) const;
  bool is_below(int symbol, int64_t divisor) const;
  struct Apart {
    int64_t ahead, divisor;
  };
  std::optional<Apart> apart(int one, int other) const;

  std::vector<Symbol> symbols_;
  std::map<std::vector<int64_t>, int> known_;
};

}  // namespace lw::lowering
