// Where an element lies: the arithmetic of indices at a point. Internal to src/lower.
//
// Quotients and remainders of axes that were fused, or that a layout cuts into blocks, are affine
// where the variables and lanes allow it, else a variable or a vector of the block, computed once.
// What divides is remembered, so that an address in which quotient and remainder meet again is
// that of the dividend: (f / E) * E + f % E = f.
#pragma once

#include <optional>
#include <vector>

#include "src/lower/values/point.h"

namespace lw::lowering {

// A dimension's index within the storage's box, with the tightest range that is known.
Index localize(const Emitter& e, const Storage& storage, size_t dimension, const Index& index,
               const Point& point);

// Of one straight-line block.
class Addressing {
 public:
  explicit Addressing(Emitter& e) : e_(e), registers_(e) {}
  Emitter& emitter() const { return e_; }
  Registers& registers() { return registers_; }

  // floor(a / divisor) or (`modulo`) the remainder, divisor > 0.
  Index divide(const Index& a, int64_t divisor, bool modulo, const Point& point);
  // The same without any division, where the point lies within one block of all multiples of the
  // divisor. Not for addresses in a blocked copy, whose origin may move.
  std::optional<Index> divide_blocks(const Index& a, int64_t divisor, bool modulo,
                                     const Point& point) const;
  // The less (kMin) or the greater (kMax) of two indices.
  Index extreme(ExprOp op, const Index& a, const Index& b, int lanes);
  // Moved into [0, extent), lane by lane.
  Index clamp(const Index& a, int64_t extent, int lanes);
  // Address of a point in elements, given its indices within the box: row-major, or in blocks and
  // groups.
  Index flatten(const Storage& storage, const std::vector<Index>& local, const Point& point);

 private:
  struct Extreme {
    ExprOp op;                             // kMin, kMax
    int lanes;
    Index a, b, result;
  };
  struct Quotient {
    Index dividend;
    int64_t divisor;
    int lanes;
    int quotient, remainder;               // variables, or, of several lanes, kI64 registers
    Index index(int part, int64_t coefficient = 1) const;  // coefficient * part
  };
  Index divide_piece(const Index& a, int64_t divisor, bool modulo, const Point& point);
  std::optional<Index> divide_affine(const Index& a, int64_t divisor, bool modulo,
                                     const Point& point) const;
  const Quotient& quotient(const Index& a, int64_t divisor, int lanes);
  int known_quotient(const Index& a, int64_t divisor, int lanes) const;
  void cancel_quotients(Index& index) const;

  Emitter& e_;
  Registers registers_;
  std::vector<Quotient> quotients_;
  std::vector<Extreme> extremes_;
};

}  // namespace lw::lowering
