// Transposed convolutions: each phase of the stride is a convolution with the taps that meet it,
// and a product of the array's:
//
//   phase_taps(Y, y, r; 2)
//   phase_taps(Y, x, s; 2)
//   reorder(Y, y.p, x.p, n, y.q, x.q, co; 0)
//
// Also what reads backwards along its sum, X[y - r], which is of one phase.
#include "schedules/npu/phases.h"

#include <algorithm>

#include "schedules/space/rule.h"

namespace lw::rules {
namespace {

bool is_product(const Draft& d, int stage) {
  const std::optional<NpuProduct> product = product_of(d.nest, stage);
  return product && is_for_array(*product);
}

bool separate(Draft& d, int stage) {
  const std::vector<TapAxes> cuts = tap_axes(d.nest, stage);
  const Stage before = d.nest.stages[stage];
  if (cuts.empty() || !before.axis_value.empty() || is_product(d, stage)) return false;
  std::vector<std::string> names = {before.name}, points;
  for (const TapAxes& cut : cuts) {
    const std::string loop = loop_of(before, cut.axis);
    fixed(d, "phase_taps", {before.name, loop, loop_of(before, cut.sum)}, {cut.n});
    names.push_back(loop + ".p");
    points.push_back(loop);
  }
  for (const Loop& loop : before.loops) {
    if (is_reduction(before, loop)) continue;
    const bool cut = std::find(points.begin(), points.end(), loop.name) != points.end();
    names.push_back(cut ? loop.name + ".q" : loop.name);
  }
  fixed(d, "reorder", std::move(names), {0});
  return !d.failed && is_product(d, stage);
}

void branch(Draft draft, std::vector<Draft>& drafts) {
  for (int s = 0; s < static_cast<int>(draft.nest.stages.size()); ++s) {
    Draft next = draft;
    if (separate(next, s)) draft = std::move(next);
  }
  drafts.push_back(std::move(draft));
}

}  // namespace

const Rule& phases() {
  static constexpr Rule rule = {"phases", Phase::kRewrite, branch, nullptr, nullptr, "npu"};
  return rule;
}

}  // namespace lw::rules
