// The first reduction that is too small in space for the threads is split among them, and their
// parts are combined afterwards: a sketch of its own, beside those of whole reductions.
#include "schedules/space/rule.h"

namespace lw::rules {
namespace {

bool wants_rfactor(const Nest& nest, int s) {
  if (nest.threads <= 1 || is_map(nest, s) || nest.stages[s].place != Place::kRoot) return false;
  const Tensor& tensor = nest.program->tensors[nest.stages[s].tensor];
  double points = 1, reduced = 1;
  for (const Axis& axis : tensor.axes) points *= static_cast<double>(axis.extent);
  for (const Axis& axis : tensor.reduce_axes) reduced *= static_cast<double>(axis.extent);
  const double tile = has_reuse(nest, s) ? 512 : 1;
  return points < tile * nest.threads * 8 && reduced >= 64 * nest.threads;
}

void rfactor_outer(Draft& d, const std::string& name) {
  const Tensor& tensor = d.nest.program->tensors[d.nest.stages[find_stage(d.nest, name)].tensor];
  const Axis* widest = &tensor.reduce_axes[0];
  for (const Axis& axis : tensor.reduce_axes) {
    if (widest->extent < 2 * d.nest.threads) widest = &axis;
  }
  const std::string axis = widest->name;
  // As many parts as threads, or a few times more.
  const int64_t part = (widest->extent + d.nest.threads - 1) / d.nest.threads;
  fixed(d, "split", {name, axis}, {part, 0});
  fixed(d, "rfactor", {name, axis + ".0"});
}

void branch(Draft draft, std::vector<Draft>& drafts) {
  drafts.push_back(draft);
  for (int s = 0; s < static_cast<int>(draft.nest.stages.size()); ++s) {
    if (!wants_rfactor(draft.nest, s)) continue;
    rfactor_outer(draft, std::string(draft.nest.stages[s].name));
    draft.name = draft.vector_reduction ? "split reduction, lanes along it" : "split reduction";
    draft.chosen = true;
    drafts.push_back(std::move(draft));
    return;
  }
}

}  // namespace

const Rule& split_reduction() {
  static constexpr Rule rule = {"split_reduction", Phase::kThreads, branch};
  return rule;
}

}  // namespace lw::rules
