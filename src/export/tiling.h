// A stage's loops as what tiles a linalg operation: loops by axis and tile, and what remains inside.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "schedules/nest.h"
#include "src/export/operation.h"

namespace lw {

struct TileLoop {
  int axis;                                // of the operation
  int64_t tile;
  std::vector<int64_t> iterations;         // that an instance may have, if more than one; falling
  bool partial;                            // some instance of it ends with less than a tile
};

// A copy that stands in loops, and the box of which an instance may hold so many along each
// dimension.
struct PlacedCopy {
  int copy;                                // of Nest::stages
  int loops;                               // of `shared` and `own`, outermost first, around it
  std::vector<std::set<int64_t>> box;
};

struct Tiling {
  // Outside of all reductions, outermost first: epilogues run there too. Of what a run holds no axis
  // occurs twice, and copies stand only in the last loop of a run.
  std::vector<std::vector<TileLoop>> shared;
  std::vector<TileLoop> own;               // further in
  std::vector<int64_t> tile;               // inside of `own`: most points of each axis
  std::vector<TileLoop> points;            // of a vector's points, to be unrolled: the register tile
  std::vector<PlacedCopy> copies;
  int lanes = -1;                          // the axis that remains; -1: none, each point for itself
  int64_t vector = 1;                      // most lanes
  bool interrupted = false;                // some of `own` are spatial, with reductions around them
};

// Loops of one iteration are left out, fused ones are their parts, each where it was.
Tiling tiling_of(const Nest& nest, const Operation& operation);

// Of what fills or finishes a reduction's results: over its spatial axes, the loops that its own
// `shared` leaves to it.
Tiling finish_of(const Operation& operation, const Tiling& tiling);

// Of sums in lanes (Operation::lanes), when they are filled and when they are added up: over the
// dimensions of the result, then the lanes.
Tiling lanes_of(const Operation& operation, const Tiling& tiling);

// Of a box of which nothing says how: point by point, the last axis in vectors of some lanes.
Tiling plain_tiling(const std::vector<int64_t>& extents);
Tiling plain_tiling(std::vector<std::set<int64_t>> extents);  // that instances may have

}  // namespace lw
