#include "schedules/space/matrix_sides.h"

#include <algorithm>
#include <utility>

#include "schedules/dot.h"
#include "schedules/space/rule.h"
#include "schedules/steps.h"
#include "schedules/targets/matrix_shape.h"
#include "schedules/targets/target.h"
#include "src/expr/expr.h"

namespace lw::rules {

std::optional<MatrixSides> matrix_sides(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  if (s.copy_of >= 0 || s.body == nullptr || !s.axis_value.empty()) return std::nullopt;
  const Tensor& tensor = nest.program->tensors[s.tensor];
  if (tensor.reduce != Reduce::kSum) return std::nullopt;
  const Expr term = effective_body(nest, stage);
  std::optional<MatrixSides> best;
  int64_t most = 0;
  const int axes = static_cast<int>(s.axes.size());
  for (int m = 0; m < axes; ++m) {
    for (int n = 0; n < axes; ++n) {
      if (m == n || s.axes[m].reduction || s.axes[n].reduction) continue;
      const int64_t points = s.axes[m].extent * s.axes[n].extent;
      if (points < most || (points == most && best && n < best->n)) continue;
      if (!matrix_factors(*nest.target, term, tensor.type, m, n)) continue;
      most = points;
      best = MatrixSides{m, n, -1};
    }
  }
  if (!best) return best;
  for (int k = 0; k < axes; ++k) {
    const bool longer = best->k < 0 || s.axes[k].extent >= s.axes[best->k].extent;
    if (s.axes[k].reduction && longer) best->k = k;
  }
  return best;
}

namespace {

bool has_wide_tiles(const Nest& nest, const Stage& s, const MatrixSides& sides) {
  const StepKind* const kind = find_step("wide_tile");
  Step step{kind, {s.name, loop_of(s, sides.m), loop_of(s, sides.n), loop_of(s, sides.k)}, {}};
  if (sides.over >= 0) step.names.push_back(loop_of(s, sides.over));
  return !kind->domain(nest, step).empty();
}

std::vector<MatrixSides> ways_of_two_axes(const Nest& nest, const Stage& s, MatrixSides sides) {
  std::vector<MatrixSides> ways;
  for (sides.m = static_cast<int>(s.axes.size()) - 1; sides.m >= 0 && ways.empty(); --sides.m) {
    for (sides.over = 0; sides.over < static_cast<int>(s.axes.size()); ++sides.over) {
      if (has_wide_tiles(nest, s, sides)) ways.push_back(sides);
    }
  }
  return ways;
}

}  // namespace

std::vector<MatrixSides> wide_ways(const Nest& nest, int stage) {
  std::vector<MatrixSides> ways;
  const std::optional<MatrixSides> sides = matrix_sides(nest, stage);
  if (!sides) return ways;
  const Stage& s = nest.stages[stage];
  const MatrixSides either[] = {*sides, {sides->n, sides->m, sides->k}};
  for (const bool whole : {true, false}) {  // rows that fill tiles are better than some that do not
    for (const MatrixSides& way : either) {
      if (whole && s.axes[way.m].extent % kWideRows != 0) continue;
      if (ways.empty() && has_wide_tiles(nest, s, way)) ways.push_back(way);
    }
  }
  const bool fills = s.axes[sides->m].extent % kWideRows == 0;
  if (fills && !ways.empty() && ways[0].m == sides->m) return ways;
  for (const MatrixSides& way : either) {
    const std::vector<MatrixSides> two = ways_of_two_axes(nest, s, way);
    ways.insert(ways.end(), two.begin(), two.end());
  }
  return ways;
}

}  // namespace lw::rules
