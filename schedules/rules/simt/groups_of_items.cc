// Groups of several items: where items run in step one alone leaves the others of its step idle.
// They fetch the operands of products together into local memory, compute a row together, or points
// beside each other: a choice beside those in which an item is alone, as suits processors. Where the
// target has sub-groups a row may be one's, which is a group, or one of several.
#include "schedules/space/rule.h"
#include "schedules/targets/simt/simt_target.h"
#include "src/base/message.h"

namespace lw::rules {
namespace {

// Rows of maps are dealt to them before what stands there is tiled; those of reductions can be.
void deal_to_sub_groups(Draft& d) {
  for (int s = 0; s < static_cast<int>(d.nest.stages.size()) && !d.failed; ++s) {
    const Stage& stage = d.nest.stages[s];
    const std::string name = stage.name;
    if (hosts_rows(d.nest, s)) {
      const std::string rows = stage.loops[loops_around_attached(d.nest, s) - 1].name;
      for (const Stage& other : d.nest.stages) {
        if (other.place != Place::kAt || other.host != s || other.loop == rows) continue;
        d.failed = true;
        d.why = concat("sub_groups(", name, ", ", rows, ") is infeasible: ", other.name,
                       " stands outside of it");
      }
      open(d, "sub_groups", {name, rows});
    } else if (reduces_rows(d.nest, s)) {
      Draft dealt = d;
      open(dealt, "sub_groups", {name, stage.loops[stage.loops.size() - 2].name});
      if (dealt.failed) d = std::move(dealt);
    }
  }
}

void branch(Draft draft, std::vector<Draft>& drafts) {
  drafts.push_back(draft);
  bool rows = false, reductions = false;
  for (int s = 0; s < static_cast<int>(draft.nest.stages.size()); ++s) {
    rows = rows || hosts_rows(draft.nest, s);
    reductions = reductions || (reduces_rows(draft.nest, s) && !draft.vector_reduction);
  }
  draft.groups = true;
  // Lanes along reductions are a choice of those that are alone.
  if (!draft.vector_reduction || rows) {
    drafts.push_back(draft);
    drafts.back().name += ", groups of items";
  }
  if ((!rows && !reductions) || simt(*draft.nest.target).sub_group == 1) return;
  draft.sub_groups = true;
  draft.name += ", sub-groups";
  drafts.push_back(draft);
  draft.several_sub_groups = true;
  draft.name += ", several of a group";
  deal_to_sub_groups(draft);
  drafts.push_back(std::move(draft));
}

}  // namespace

const Rule& groups_of_items() {
  static constexpr Rule rule = {"groups_of_items", Phase::kThreads, branch, nullptr, nullptr,
                                "simt"};
  return rule;
}

}  // namespace lw::rules
