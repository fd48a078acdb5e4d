#include "src/lower/tiles/rows.h"

#include <algorithm>
#include <map>
#include <set>

#include "schedules/targets/lanes.h"
#include "schedules/window.h"
#include "src/lower/tiles/matrices.h"

namespace lw::lowering {

bool is_vector(const Loop& loop) { return loop.kind == LoopKind::kVector; }

int vector_axis(const Frame& f) {
  if (f.stage.matrix >= 0) return f.stage.matrix_axes[1];
  if (f.stage.loops.empty() || !is_vector(f.stage.loops.back())) return -1;
  return f.stage.loops.back().parts[0].axis;
}

bool vector_reduces(const Frame& f) {
  const int va = vector_axis(f);
  const bool reduces =
      f.stage.copy_of < 0 && f.e.tensor(f.stage.tensor).reduce != Reduce::kNone;
  return va >= 0 && reduces && f.stage.axes[va].reduction;
}

namespace {

void add_rows(const Frame& f, size_t l, size_t part, bool reductions, Row& row,
              std::vector<Row>& rows) {
  const bool columns = f.stage.matrix >= 0 && l + 1 == f.stage.loops.size();
  if (l == f.stage.loops.size() || columns || is_vector(f.stage.loops[l])) {
    rows.push_back(row);
    return;
  }
  const Loop& loop = f.stage.loops[l];
  if (part == loop.parts.size() || (!reductions && is_reduction(f.stage, loop))) {
    add_rows(f, l + 1, 0, reductions, row, rows);
    return;
  }
  const int a = loop.parts[part].axis;
  // An item has a row of eight.
  const int64_t tile = f.stage.matrix >= 0 && !f.stage.axes[a].reduction ? eight_along(f, a)
                                                                         : loop.parts[part].tile;
  const AxisState saved = row.axes[a];
  const int64_t offset = row.offset[a];
  const int64_t extent = saved.extent;
  const int64_t full = extent / tile, rest = extent % tile;
  const int64_t count = full + (rest > 0 ? 1 : 0);
  for (int64_t v = 0; v < count; ++v) {
    int64_t at = v * tile, points = tile;
    if (v == full) {
      if (full > 0 && loop.tail == Tail::kShift) {
        at = extent - tile;
      } else {
        points = rest;                     // masks are not needed: the extents are constants
      }
    }
    row.axes[a] = {saved.base + affine(at), points, saved.limits};
    row.offset[a] = offset + at;
    if (f.stage.factored_axis == a && f.stage.factored_tile == tile) {
      row.axes[0].base = affine(v);
      row.offset[0] = v;
    }
    add_rows(f, l, part + 1, reductions, row, rows);
  }
  row.axes[a] = saved;
  row.offset[a] = offset;
}

}  // namespace

std::vector<Row> rows_of(const Frame& f, bool reductions) {
  std::vector<Row> rows;
  Row row{f.axes, std::vector<int64_t>(f.axes.size(), 0)};
  // Where a reduction's tiles are masked, a result exists at steps that do not.
  for (size_t a = 0; a < row.axes.size(); ++a) {
    if (!reductions && f.stage.axes[a].reduction) row.axes[a].limits.clear();
  }
  add_rows(f, f.tile, 0, reductions, row, rows);
  // Points that a tile which was moved back shares with its neighbour are computed once.
  const auto shifts = [](const Loop& loop) { return loop.tail == Tail::kShift; };
  if (std::none_of(f.stage.loops.begin() + f.tile, f.stage.loops.end(), shifts)) return rows;
  std::set<std::vector<int64_t>> seen;
  std::erase_if(rows, [&](const Row& r) { return !seen.insert(r.offset).second; });
  return rows;
}

bool unrolled(const Frame& f, int axis) {
  for (size_t l = f.tile; l < f.stage.loops.size(); ++l) {
    for (const LoopPart& part : f.stage.loops[l].parts) {
      if (part.axis == axis) return true;
    }
  }
  return false;
}

std::vector<int64_t> unrolled_points(const Frame& f, bool reductions) {
  std::vector<int64_t> points(f.axes.size(), 1);
  for (size_t l = f.tile; l < f.stage.loops.size(); ++l) {
    const Loop& loop = f.stage.loops[l];
    if (!reductions && is_reduction(f.stage, loop)) continue;
    for (const LoopPart& part : loop.parts) {
      const int64_t extent = f.axes[part.axis].extent;
      points[part.axis] = is_vector(loop) ? (extent + f.lanes - 1) / f.lanes : extent;
    }
  }
  return points;
}

void order_by_place(const Frame& f, std::vector<Row>& rows) {
  if (f.stage.dot_group > 1 || f.stage.factored_axis >= 0) return;
  const int va = vector_axis(f);
  const std::vector<ReadSteps> reads = read_steps(f.e.nest, f.s);
  const auto window = window_of(f.e.nest, f.s, reads, unrolled_points(f, true), va);
  if (!window) return;
  std::vector<std::pair<std::vector<int64_t>, size_t>> places;
  for (size_t i = 0; i < rows.size(); ++i) {
    std::vector<int64_t> place;
    for (const std::vector<int64_t>& steps : reads[window->read]) {
      place.push_back(0);
      for (size_t a = 0; a < steps.size(); ++a) place.back() += steps[a] * rows[i].offset[a];
    }
    places.emplace_back(std::move(place), i);
  }
  std::sort(places.begin(), places.end());
  std::vector<Row> ordered;
  for (const auto& [place, i] : places) ordered.push_back(std::move(rows[i]));
  rows = std::move(ordered);
}

std::vector<std::vector<size_t>> bundles_of(const std::vector<Row>& rows, int axis, int64_t group) {
  std::vector<std::vector<size_t>> bundles;
  if (axis < 0) {
    for (size_t i = 0; i < rows.size(); ++i) bundles.push_back({i});
    return bundles;
  }
  std::map<std::vector<int64_t>, std::vector<size_t>> runs;
  const auto run_of = [&](const Row& row) {
    std::vector<int64_t> key = row.offset;
    key[axis] -= key[axis] % group;
    return key;
  };
  for (size_t i = 0; i < rows.size(); ++i) {
    std::vector<size_t>& run = runs[run_of(rows[i])];
    const int64_t at = static_cast<int64_t>(run.size());
    if (rows[i].offset[axis] % group == at) run.push_back(i);
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::vector<size_t>& run = runs[run_of(rows[i])];
    const bool whole = static_cast<int64_t>(run.size()) == group;
    if (!whole) bundles.push_back({i});
    else if (run[0] == i) bundles.push_back(run);
  }
  return bundles;
}

namespace {

// Cuts `extent` points into vectors. `uniform`: full ones only, masked.
std::vector<Chunk> vectors_of(const Frame& f, int64_t extent, bool uniform) {
  std::vector<Chunk> chunks;
  int64_t at = 0;
  for (; at + f.lanes <= extent; at += f.lanes) chunks.push_back({at, f.lanes, f.lanes});
  int64_t rest = extent - at;
  switch (rest_of(register_file(*f.e.nest.target), extent, f.lanes, uniform, f.overlaps)) {
    case Rest::kNone: break;
    case Rest::kMasked: chunks.push_back({at, f.lanes, static_cast<int>(rest)}); break;
    case Rest::kOverlaps: chunks.push_back({extent - f.lanes, f.lanes, f.lanes}); break;
    case Rest::kNarrow:
      for (int lanes = f.lanes / 2; rest > 0; lanes /= 2) {
        if (lanes > rest) continue;
        chunks.push_back({at, lanes, lanes});
        at += lanes;
        rest -= lanes;
      }
  }
  return chunks;
}

// Points of the vector axis that one tile holds: what the innermost loop over it before the tile
// leaves.
int64_t vector_extent(const Frame& f, int va) {
  int64_t extent = f.axes[va].extent;
  for (int l = f.run; l < f.tile; ++l) {
    for (const LoopPart& part : f.stage.loops[l].parts) {
      if (part.axis == va) extent = std::min(extent, part.tile);
    }
  }
  return extent;
}

}  // namespace

std::vector<Chunk> chunks_of(const Frame& f, const Row& row) {
  const int va = vector_axis(f);
  if (va < 0) return {{0, 1, 1}};
  if (f.stage.matrix >= 0) return matrix_columns(row.axes[va].extent);
  return vectors_of(f, row.axes[va].extent, vector_reduces(f));
}

std::vector<Chunk> result_chunks(const Frame& f, const Row& row) {
  if (!vector_reduces(f)) return chunks_of(f, row);
  return vectors_of(f, vector_extent(f, vector_axis(f)), true);
}

std::vector<int64_t> position(const Frame& f, const Row& row, const Chunk& chunk) {
  std::vector<int64_t> key;
  for (size_t a = 0; a < row.offset.size(); ++a) {
    if (!f.stage.axes[a].reduction) key.push_back(row.offset[a]);
  }
  key.push_back(chunk.offset);
  return key;
}

namespace {

// From a point over the stage's axes to one over its tensor's (they differ after whole axes were
// fused).
Point tensor_point(const Frame& f, Evaluator& evaluator, const Point& point) {
  const Tensor& tensor = f.e.tensor(f.stage.tensor);
  const size_t spatial = tensor.axes.size();
  Point result;
  result.chunk = point.chunk;
  result.valid = point.valid;
  result.dropped = point.dropped;
  for (size_t a = 0; a < f.stage.axis_value.size(); ++a) {
    const Expr& value = f.stage.axis_value[a];
    result.axis.push_back(evaluator.index(value, point));
    // Testing quotients that differ from lane to lane would cost a division each.
    if (!point.valid.empty() && !result.axis.back().terms.empty()) {
      result.bounded = true;
      Interval& range = result.axis.back().range;
      const Axis& axis = a < spatial ? tensor.axes[a] : tensor.reduce_axes[a - spatial];
      range = {std::max<int64_t>(range.lo, 0), std::min(range.hi, axis.extent - 1)};
      range.hi = std::max(range.lo, range.hi);
    }
    int64_t key = 0;
    bool varies = false;
    visit(value, [&](const ExprNode& node) {
      if (node.op != ExprOp::kAxis) return;
      key = key * 1000003 + point.key[node.index];
      varies = varies || point.varies[node.index];
    });
    result.key.push_back(key);
    result.varies.push_back(varies);
  }
  return result;
}

}  // namespace

Point make_point(const Frame& f, Evaluator& evaluator, const Row& row, int va, const Chunk& chunk) {
  Point point;
  point.chunk = chunk;
  for (size_t a = 0; a < row.axes.size(); ++a) {
    const bool vector = static_cast<int>(a) == va;
    const Affine base = vector ? row.axes[a].base + affine(chunk.offset) : row.axes[a].base;
    point.axis.push_back(make_index(f.e, base, vector ? 1 : 0, vector ? chunk.lanes : 1));
    point.key.push_back(row.offset[a] + (vector ? chunk.offset : 0));
    point.varies.push_back(vector && chunk.lanes > 1);
    for (const Affine& limit : row.axes[a].limits) {
      const Index end = make_index(f.e, limit - affine(1), 0, 1);
      point.valid.push_back(add(end, point.axis.back(), -1));
      point.dropped.push_back(!f.stage.axes[a].reduction);
    }
  }
  if (f.stage.axis_value.empty()) return point;
  return tensor_point(f, evaluator, point);
}

bool parts_items(const Frame& f, int l, const Guard& guard) {
  const bool differs = std::any_of(f.shared.begin(), f.shared.end(), [&](const auto& axis) {
    return guard.moved_by(axis.first);
  });
  const std::vector<Stage>& stages = f.e.nest.stages;
  return differs && std::any_of(stages.begin(), stages.end(), [&](const Stage& s) {
    return s.place == Place::kAt && s.host == f.s && s.memory >= 0 &&
           find_loop(f.stage, s.loop) >= l;
  });
}

}  // namespace lw::lowering
