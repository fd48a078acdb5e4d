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

std::optional<MatrixSides> wide_sides(const Nest& nest, int stage) {
  const std::optional<MatrixSides> sides = matrix_sides(nest, stage);
  if (!sides) return std::nullopt;
  const Stage& s = nest.stages[stage];
  const StepKind* const kind = find_step("wide_tile");
  const std::pair<int, int> ways[] = {{sides->m, sides->n}, {sides->n, sides->m}};
  for (const bool whole : {true, false}) {  // rows that fill tiles are better than some that do not
    for (const auto& [m, n] : ways) {
      if (whole && s.axes[m].extent % kWideRows != 0) continue;
      Step step{kind, {s.name, loop_of(s, m), loop_of(s, n), loop_of(s, sides->k)}, {}};
      if (!kind->domain(nest, step).empty()) return MatrixSides{m, n, sides->k};
    }
  }
  return std::nullopt;
}

}  // namespace lw::rules
