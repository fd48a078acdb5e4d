// Operands of dot products: for each lane the elements of `g` points that follow each other along
// the reduction. Internal to src/lower.
//
//   what the points have in memory          becomes
//   one run of g, the same for all lanes    a load of g elements (the caller broadcasts it)
//   a run of g for each lane, one after     one load of lanes x g elements: a copy in groups
//     the other
//   anything else                           the points' vectors, interleaved: the caller's
//
// What the addresses are is decided here, point by point, so no layout is required for a result to
// be right: a copy whose box does not start at a whole group, a row-major operand, a window under
// padding only cost more.
#pragma once

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "src/lower/values/memory.h"

namespace lw::lowering {

// Where a plain read of a tensor finds its element.
struct ReadPlace {
  int buffer = -1;
  Index address;
  bool affine = true;                      // in loop variables and the lane
  bool uniform = true;                     // all indices are
  std::vector<Index> needs;                // there is an element only where all of these are >= 0
};
// `index_of`: of an expression at the point.
ReadPlace place_of(Memory& memory, const Expr& read, const Point& point,
                   absl::FunctionRef<Index(const Expr&)> index_of);
// Whether reading there is one load, with nothing selected afterwards.
bool loads_whole(const ReadPlace& place, const Point& point);

// The points' elements together for each lane, in one load; no register where that cannot be.
Value load_group(Memory& memory, const Expr& read, absl::Span<const Point> points,
                 absl::FunctionRef<ReadPlace(const Point&)> place_at);

}  // namespace lw::lowering
