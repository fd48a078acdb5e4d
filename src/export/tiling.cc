#include "src/export/tiling.h"

#include <algorithm>
#include <cstddef>
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
  explicit Extents(std::vector<std::set<int64_t>> left) : left_(std::move(left)) {}

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

  std::vector<int64_t> most() const {
    std::vector<int64_t> all;
    for (const std::set<int64_t>& points : left_) all.push_back(*points.rbegin());
    return all;
  }

  // Of what an operand holds for the points that are left, along each of its dimensions.
  std::vector<std::set<int64_t>> box(const Operand& operand) const {
    std::vector<std::set<int64_t>> box;
    for (const std::vector<int64_t>& factors : operand.factors) {
      std::set<int64_t> sizes = {1};
      for (size_t axis = 0; axis < factors.size(); ++axis) {
        if (factors[axis] == 0) continue;
        std::set<int64_t> longer;
        for (int64_t size : sizes) {
          for (int64_t points : left_[axis]) longer.insert(size + factors[axis] * (points - 1));
        }
        sizes = std::move(longer);
      }
      box.push_back(std::move(sizes));
    }
    return box;
  }

 private:
  std::vector<std::set<int64_t>> left_;
};

struct FlatLoop {
  int loop;                                // of the stage
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
        flat.push_back({l, 0, 1, false, in_tile});
        continue;
      }
      // Of an axis that is cut a loop runs over whole blocks, then over what is in each.
      const CutAxis& cut = operation.cuts[part.axis];
      const bool reduction = stage.axes[part.axis].reduction;
      for (size_t n = 0; n < cut.axes.size(); ++n) {
        flat.push_back({l, cut.axes[n], std::max<int64_t>(1, part.tile / cut.units[n]), reduction,
                        in_tile});
        if (part.tile >= cut.units[n]) break;
      }
    }
  }
  return flat;
}

// `begins`: a run of its own.
void add_to_runs(const TileLoop& loop, bool begins, std::vector<std::vector<TileLoop>>& runs) {
  const auto is_of = [&](const TileLoop& other) { return other.axis == loop.axis; };
  if (runs.empty() || begins || std::any_of(runs.back().begin(), runs.back().end(), is_of))
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

// Over the axes of the result, which come first, then `lanes`, unless that is -1.
Tiling finish(const Operation& operation, const Tiling& tiling, int lanes) {
  std::vector<NestAxis> axes(operation.axes.begin(),
                             operation.axes.begin() +
                                 static_cast<std::ptrdiff_t>(operation.shape.size()));
  const int rank = static_cast<int>(axes.size());
  if (lanes >= 0) axes.push_back(operation.axes[lanes]);
  Extents extents(axes);
  for (const std::vector<TileLoop>& run : tiling.shared) {
    for (const TileLoop& loop : run) extents.cut(loop.axis, loop.tile);
  }
  Tiling finish;
  for (const TileLoop& loop : tiling.own) {
    if (loop.axis < rank) finish.own.push_back(extents.cut(loop.axis, loop.tile));
  }
  std::vector<int> points;
  for (const TileLoop& loop : tiling.points) {
    if (loop.axis < rank) points.push_back(loop.axis);
  }
  finish.vector = tiling.vector;
  if (lanes >= 0) {
    points.push_back(rank);
    finish.lanes = rank;
  } else if (tiling.lanes >= 0 && tiling.lanes < rank) {
    finish.lanes = tiling.lanes;
  } else if (!points.empty()) {
    finish.lanes = points.back();          // the reduction's rows
  }
  add_points(points, finish.vector, extents, finish);
  return finish;
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
  int cuts = 0, loops_done = 0;
  // Copies inside of the stage's first so many loops.
  const auto place_copies = [&](int depth) {
    for (const Packing* packing : packings_read(operation)) {
      if (cuts == 0 || packing->depth <= loops_done || packing->depth > depth) continue;
      const auto is_it = [&](const Operand& o) { return o.copy == packing->copy; };
      const auto operand =
          std::find_if(operation.operands.begin(), operation.operands.end(), is_it);
      tiling.copies.push_back({packing->copy, cuts, extents.box(*operand)});
    }
    loops_done = depth;
  };
  for (const FlatLoop& loop : loops) {
    place_copies(loop.loop);
    if (loop.in_tile) {
      points.push_back(loop.axis);
      continue;
    }
    if (!extents.iterates(loop.axis, loop.tile)) continue;
    reduces = reduces || loop.reduction;
    tiling.interrupted = tiling.interrupted || (reduces && !loop.reduction);
    const TileLoop cut = extents.cut(loop.axis, loop.tile);
    const bool after_copy = !tiling.copies.empty() && tiling.copies.back().loops == cuts;
    ++cuts;
    if (reduces) tiling.own.push_back(cut);
    else add_to_runs(cut, after_copy, tiling.shared);
  }
  place_copies(static_cast<int>(stage.loops.size()));
  std::stable_partition(points.begin(), points.end(),
                        [&](int axis) { return !operation.axes[axis].reduction; });
  tiling.tile = extents.most();
  tiling.vector = stage_lanes(nest, operation.stage);
  add_points(points, tiling.vector, extents, tiling);
  return tiling;
}

Tiling finish_of(const Operation& operation, const Tiling& tiling) {
  return finish(operation, tiling, -1);
}

Tiling lanes_of(const Operation& operation, const Tiling& tiling) {
  return finish(operation, tiling, operation.lanes);
}

Tiling plain_tiling(const std::vector<int64_t>& shape) {
  std::vector<std::set<int64_t>> sizes;
  for (int64_t extent : shape) sizes.push_back({extent});
  return plain_tiling(std::move(sizes));
}

Tiling plain_tiling(std::vector<std::set<int64_t>> sizes) {
  Tiling tiling;
  const int last = static_cast<int>(sizes.size()) - 1;
  Extents extents(std::move(sizes));
  for (int a = 0; a <= last; ++a) {
    const int64_t tile = a == last ? kPlainLanes : 1;
    if (extents.iterates(a, tile)) tiling.own.push_back(extents.cut(a, tile));
  }
  tiling.lanes = last;
  return tiling;
}

}  // namespace lw
