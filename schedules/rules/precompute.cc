// What maps compute at costs of one value for a row, a column or a channel is computed once for it.
#include "schedules/space/rule.h"

namespace lw::rules {
namespace {

void branch(Draft draft, std::vector<Draft>& drafts) {
  bool any = false;
  for (int s = 0; s < static_cast<int>(draft.nest.stages.size()) && !is_over(draft); ++s) {
    if (draft.nest.stages[s].place != Place::kRoot || !is_map(draft.nest, s)) continue;
    const std::string name = draft.nest.stages[s].name;
    const size_t reasons = draft.left_out.size();
    const bool applied = attempt(draft, [&](Draft& next) { fixed(next, "precompute", {name}); });
    draft.left_out.resize(reasons);        // most have nothing of the kind
    any = any || applied;
    if (applied) s = find_stage(draft.nest, name);
  }
  if (any) fuse_epilogues(draft);
  drafts.push_back(std::move(draft));
}

}  // namespace

const Rule& precompute() {
  static constexpr Rule rule = {"precompute", Phase::kMerge, branch, nullptr, nullptr, "cpu"};
  return rule;
}

}  // namespace lw::rules
