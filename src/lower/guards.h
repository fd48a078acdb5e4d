// Terms of a reduction that do not count. Where a read under `pad` leaves its tensor, or a `where`
// takes its zero, the point's term is what the reduction starts from (a zero that is multiplied and
// summed, the minus infinity of a maximum): it need not be computed. So a window that hangs over an
// edge, and one that meets only every second pixel, is decided where it costs least:
//
//   for y:                                  a guard that all points of the tile share becomes
//     for r: if y + r - 1 in [0, H):        a branch around the loops inside, with no else;
//       ...
//   for x.0 in first, inner..., last:       a spatial loop runs its first and last tiles apart, so
//     for s:                                that the inner ones need no test at all, and at the
//       ...                                 edges the taps of the window are unrolled: every row
//                                           then knows which of them it has.
//
// What other definitions say counts too (outside.h): where the scores of attention are minus infinity
// beyond a mask, neither their maximum, nor the sum of their exponentials, nor the product with these
// has blocks beyond it; nor has the product that the mask takes its scores from, whose epilogue
// would not look at them; of the exponentials themselves, blocks beyond it are zeros that nobody
// computes. Blocks that the mask crosses are computed whole.
//
// Whether an index is a multiple of a number (the taps of a transposed convolution) is decided
// alike: by a branch for all rows, or, where the tiles' starts are multiples, by unrolling the taps.
// So no zero that a stride puts between the pixels is multiplied. Axes that move the index by
// multiples only do not count; those of its remainders (the phases) are unrolled as taps are.
//
// Rows that differ behind a start that is not a constant get a branch with the whole tile inside,
// and an else where every read is masked by its own bounds, if any point counts. So a product by
// `where(k >= i, A[i, k], 0)` runs the blocks above the diagonal unchecked, those that it crosses
// masked, and none below.
//
// What padding adds is nothing also where it would be multiplied by an infinity or a NaN.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "src/expr/expr.h"
#include "src/lower/emitter.h"

namespace lw::lowering {

// Sums and multiples of axes only: an interval of them has a constant extent.
bool is_affine(const Expr& expr);
// Of the axes and of the constant (last) in an index that is affine.
std::vector<int64_t> coefficients_of(const Expr& index, size_t axes);

// Adds the conditions of a conjunction that are `index % n == 0`, of affine indices: the index and
// n of each. False: there are others too.
bool multiples_of(const Expr& condition, std::vector<std::pair<Expr, int64_t>>* multiples);
// Of an index that is affine in `axes` axes: their coefficients, 0 for those that move it by
// multiples of the divisor, then the constant.
std::vector<int64_t> remainder_of(const Expr& index, int64_t divisor, size_t axes);

// Whether a term of the reduction is its identity wherever `part` of `body`, a `pad` or a `where`,
// has its last operand's value. `type`: of the result.
bool vanishes_with(const Expr& body, const ExprNode* part, Reduce reduce, Type type);

// A term counts only where floor(index / divisor) is in [0, extent), or, of a `multiple`, where the
// index is a multiple of the divisor (an extent beyond all indices: where it is not negative). The index is affine in the stage's axes: looked at for every
// instance of a loop, it is kept as their coefficients.
struct Guard {
  std::vector<int64_t> coefficients;       // per axis, then the constant
  int64_t extent = 0;
  int64_t divisor = 1;
  bool multiple = false;
  bool idle = false;                       // elsewhere it need not be computed, but is right if it is
  bool moved_by(int axis) const { return coefficients[axis] != 0; }
};

// Of a stage whose axes are its tensor's: none after whole axes were fused.
struct Guards {
  std::vector<Guard> all;
  // Of a map, which has guards where this is known and takes less than computing it (the exponential of
  // minus infinity, on processors): what it is where one of them lets no point count.
  std::optional<double> outside;
};
Guards guards_of(Emitter& e, int stage);

// Where the guard's index is over a box of points.
struct GuardRange {
  Affine lo, hi;                           // hi - lo is a constant
  bool inside = false, outside = false;    // all of the points are, whatever the variables
  bool settled = false;                    // each point's answer does not depend on the variables
  bool single() const { return lo == hi; }
};
GuardRange range_of_guard(const Emitter& e, const Guard& guard,
                          const std::vector<AxisState>& axes);

// What must be >= 0 where the guard lets all points of the range count; where some may. Divisions that
// it emits stay in Emitter::quotients.
std::vector<Affine> conditions_of(Emitter& e, const Guard& guard, const GuardRange& range);
std::vector<Affine> some_of(const Guard& guard, const GuardRange& range);

// The iterations [first, last) of a loop over `count` tiles of `tile` points of `axis` in which
// every guard is satisfied, where guards that the tile's points differ in leave only few outside.
// Otherwise all are one kind: {0, count}. `axes`: as they are outside the loop.
struct Interior {
  int64_t first, last;
};
Interior interior(Emitter& e, const std::vector<Guard>& guards, const std::vector<AxisState>& axes,
                  int axis, int64_t tile, int64_t count);

// Whether a loop over `axis` is short and decides, once its iteration number is a constant, which
// points are multiples.
bool unrolls_phase(Emitter& e, const std::vector<Guard>& guards,
                   const std::vector<AxisState>& axes, int axis, int64_t count);

// Whether a loop over `axis`, a reduction, is short and shall be unrolled because some guard
// depends on it and on nothing else that varies.
bool unrolls_window(Emitter& e, const std::vector<Guard>& guards,
                    const std::vector<AxisState>& axes, int axis, int64_t count);

}  // namespace lw::lowering
