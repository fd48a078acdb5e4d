#include "src/export/tiling.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

namespace lw {
namespace {

constexpr int64_t kPlainLanes = 16;

// Of each axis how many points an instance may have left, as loops cut them.
class Extents {
 public:
  explicit Extents(const std::vector<NestAxis>& axes) {
    for (const NestAxis& axis : axes) left_.push_back({axis.extent});
  }

  // Whether a loop of that tile has more than one iteration anywhere.
  bool iterates(int axis, int64_t tile) const { return *left_[axis].rbegin() > tile; }

  TileLoop cut(int axis, int64_t tile) {
    std::set<int64_t> inside;
    std::set<int64_t, std::greater<>> iterations;
    bool partial = false;
    for (int64_t extent : left_[axis]) {
      if (extent / tile > 1) iterations.insert(extent / tile);  // without the peeled last
      inside.insert(std::min(extent, tile));
      if (extent <= tile || extent % tile == 0) continue;
      inside.insert(extent % tile);
      partial = true;
    }
    left_[axis] = std::move(inside);
    return {axis, tile, {iterations.begin(), iterations.end()}, partial};
  }

 private:
  std::vector<std::set<int64_t>> left_;
};

struct FlatLoop {
  int axis;                                // of the operation
  int64_t tile;
  bool reduction, in_tile;
};

std::vector<FlatLoop> flat_loops(const Stage& stage, const Operation& operation) {
  std::vector<FlatLoop> flat;
  const int begin = tile_begin(stage);
  for (int l = 0; l < static_cast<int>(stage.loops.size()); ++l) {
    for (const LoopPart& part : stage.loops[l].parts) {
      const bool in_tile = l >= begin;
      // What was factored is an axis of its own, one partial sum an iteration.
      if (is_factored(stage, part)) {
        flat.push_back({0, 1, false, in_tile});
        continue;
      }
      // Of an axis that is cut a loop runs over whole blocks, then over the points of each.
      const CutAxis& cut = operation.cuts[part.axis];
      const bool reduction = stage.axes[part.axis].reduction;
      flat.push_back({cut.outer, std::max<int64_t>(1, part.tile / cut.block), reduction, in_tile});
      if (part.tile < cut.block) flat.push_back({cut.inner, part.tile, reduction, in_tile});
    }
  }
  return flat;
}

void add_to_runs(const TileLoop& loop, std::vector<std::vector<TileLoop>>& runs) {
  const auto is_of = [&](const TileLoop& other) { return other.axis == loop.axis; };
  if (runs.empty() || std::any_of(runs.back().begin(), runs.back().end(), is_of))
    runs.emplace_back();
  runs.back().push_back(loop);
}

// The tile's rows: every axis that has more than a point left, but for the lanes. Reductions come
// last: what is added to a row then follows each other once these loops are unrolled.
// The lanes are cut into vectors of the machine: LLVM takes others apart where they cross blocks.
void add_points(const std::vector<int>& axes, int64_t vector, Extents& extents, Tiling& tiling) {
  for (int axis : axes) {
    const int64_t tile = axis == tiling.lanes ? vector : 1;
    if (extents.iterates(axis, tile)) tiling.points.push_back(extents.cut(axis, tile));
  }
}

}  // namespace

Tiling tiling_of(const Nest& nest, const Operation& operation) {
  const Stage& stage = nest.stages[operation.stage];
  Tiling tiling;
  Extents extents(operation.axes);
  const std::vector<FlatLoop> loops = flat_loops(stage, operation);
  if (!stage.loops.empty() && stage.loops.back().kind == LoopKind::kVector)
    tiling.lanes = loops.back().axis;
  bool reduces = false;
  std::vector<int> points;
  for (const FlatLoop& loop : loops) {
    if (loop.in_tile) {
      points.push_back(loop.axis);
      continue;
    }
    if (!extents.iterates(loop.axis, loop.tile)) continue;
    reduces = reduces || loop.reduction;
    tiling.interrupted = tiling.interrupted || (reduces && !loop.reduction);
    const TileLoop cut = extents.cut(loop.axis, loop.tile);
    if (reduces) tiling.own.push_back(cut);
    else add_to_runs(cut, tiling.shared);
  }
  std::stable_partition(points.begin(), points.end(),
                        [&](int axis) { return !operation.axes[axis].reduction; });
  tiling.vector = stage_lanes(nest, operation.stage);
  add_points(points, tiling.vector, extents, tiling);
  return tiling;
}

Tiling finish_of(const Operation& operation, const Tiling& tiling) {
  Tiling finish;
  Extents extents(operation.axes);
  for (const std::vector<TileLoop>& run : tiling.shared) {
    for (const TileLoop& loop : run) extents.cut(loop.axis, loop.tile);
  }
  const auto is_spatial = [&](int axis) { return !operation.axes[axis].reduction; };
  for (const TileLoop& loop : tiling.own) {
    if (is_spatial(loop.axis)) finish.own.push_back(extents.cut(loop.axis, loop.tile));
  }
  std::vector<int> points;
  for (const TileLoop& loop : tiling.points) {
    if (is_spatial(loop.axis)) points.push_back(loop.axis);
  }
  finish.vector = tiling.vector;
  if (tiling.lanes >= 0 && is_spatial(tiling.lanes)) {
    finish.lanes = tiling.lanes;
  } else if (!points.empty()) {
    finish.lanes = points.back();          // the reduction's rows
  }
  add_points(points, finish.vector, extents, finish);
  return finish;
}

Tiling plain_tiling(const std::vector<int64_t>& shape) {
  Tiling tiling;
  std::vector<NestAxis> axes;
  for (int64_t extent : shape) axes.push_back({"", extent});
  Extents extents(axes);
  const int last = static_cast<int>(shape.size()) - 1;
  for (int a = 0; a <= last; ++a) {
    const int64_t tile = a == last ? kPlainLanes : 1;
    if (extents.iterates(a, tile)) tiling.own.push_back(extents.cut(a, tile));
  }
  tiling.lanes = last;
  return tiling;
}

}  // namespace lw
