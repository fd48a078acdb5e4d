// Which elements of the buffers that a group shares its items touch in a piece of its program, and
// whether two pieces may meet there. Internal to src/lower/simt.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "src/lower/simt/symbols.h"

namespace lw::lowering {

// Elements from `lo` to before `hi`.
struct Touched {
  int64_t lo, hi;
  int item;                                // -1: several
};

// Of what lies at the same sum of symbols: counted from there.
struct Part {
  Affine at;                               // without a constant
  std::vector<Touched> reads, writes;      // apart and ascending, once they are settled
};

class Footprint {
 public:
  void add(int buffer, bool write, const Affine& lo, int64_t elements, int item);
  // What several items touch becomes one piece of `several`. Nothing is added any more.
  void settle();
  const std::map<int, std::vector<Part>>& parts() const { return parts_; }
  // Buffers that several items write at the same place, or may; -1: none.
  int written_by_several(Symbols& symbols) const;

 private:
  std::map<int, std::vector<Part>> parts_; // by buffer
  size_t latest_ = 0;                      // part that was added to
};

// What symbols stand for: those of an iteration before, or any; each replaced once.
using Binding = std::vector<std::pair<int, Affine>>;

// Whether an item of the one and another item of the other may touch the same element, one of them
// to write it.
bool may_meet(Symbols& symbols, const Footprint& a, const Binding& of_a, const Footprint& b,
              const Binding& of_b);

}  // namespace lw::lowering
