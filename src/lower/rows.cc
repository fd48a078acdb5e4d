#include "src/lower/rows.h"

#include <algorithm>
#include <map>
#include <set>

#include "schedules/window.h"

namespace lw::lowering {

bool is_vector(const Loop& loop) { return loop.kind == LoopKind::kVector; }

int vector_axis(const Frame& f) {
  if (f.stage.loops.empty() || !is_vector(f.stage.loops.back())) return -1;
  return f.stage.loops.back().parts[0].axis;
}

namespace {

void add_rows(const Frame& f, size_t l, size_t part, bool reductions, Row& row,
              std::vector<Row>& rows) {
  if (l == f.stage.loops.size() || is_vector(f.stage.loops[l])) {
    rows.push_back(row);
    return;
  }
  const Loop& loop = f.stage.loops[l];
  if (part == loop.parts.size() || (!reductions && is_reduction(f.stage, loop))) {
    add_rows(f, l + 1, 0, reductions, row, rows);
    return;
  }
  const auto [a, tile] = loop.parts[part];
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

}  // namespace lw::lowering
