// The register tile: its points, its accumulators, what happens when they are finished. Internal.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "src/lower/emitter.h"
#include "src/lower/guards.h"
#include "src/lower/values/evaluate.h"

namespace lw::lowering {

// A stage while its loops are being emitted.
struct Frame {
  Emitter& e;
  int s;
  const Stage& stage;
  int run, tile;                           // run_begin, tile_begin
  std::vector<AxisState> axes;             // the current instance
  // Reduction loops outside the run: the first (last) visit of a point is where all of these are >=
  // 0, unless never.
  std::vector<Affine> first = {}, last = {};
  bool never_first = false, never_last = false;
  std::vector<int> vars = {};              // of the loops around, the innermost last
  int lanes = 1;                           // of a vector of the stage's widest type
  std::vector<Guard> guards = {};
  std::vector<bool> decided = {};          // by a branch around: guards
  std::optional<double> outside = {};      // of a map: what it is where a guard lets no point count
  bool overlaps = false;                   // its vectors may begin anywhere, and points be made twice
  // Axes along which items differ, as all of them together see them.
  std::vector<std::pair<int, AxisState>> shared = {};
  std::vector<Affine> working = {};        // >= 0: the item has a point of its own
  Affine iteration = {};                   // of the innermost loop around
  AtLoop::Slots slots = AtLoop::Slots::kFetched;  // of the copies there
  bool products_flow = false;              // those of one iteration go on while the next begins
  // Of a stage whose tile is matrices: where in each of them the item's parts are.
  struct InMatrices {
    Affine g, t;                           // schedules/targets/matrix_shape.h
    Affine row, half;                      // which of 16 rows it reads for others, which half of it
  } place = {};
};

// Accumulators by the spatial position of a point within the tile (and its chunk).
using Accumulators = std::map<std::vector<int64_t>, Value>;

Accumulators start_accumulators(Frame& f);
void update_accumulators(Frame& f, const Accumulators& accumulators);
void finish_accumulators(Frame& f, const Accumulators& accumulators);
void emit_map_tile(Frame& f);              // stages without a reduction
// Applies the epilogue to a finished value and stores what must be stored.
void finish_point(Frame& f, Evaluator& evaluator, const Point& point, Value value);
ExprOp combiner(Reduce reduce);

// Of the same, only counted (count.cc): an update, a multiply-add or more for each point; storing the
// results, with the `values` of a stage without a reduction.
void count_update(Frame& f);
void count_results(Frame& f, bool values);

}  // namespace lw::lowering
