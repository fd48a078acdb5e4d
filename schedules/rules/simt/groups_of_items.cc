// Groups of several items: where items run in step one alone leaves the others of its step idle.
// They fetch the operands of products together into local memory, compute a row together, or points
// beside each other: a choice beside those in which an item is alone, as suits processors. Where the
// target has sub-groups a row may be one's.
#include "schedules/space/rule.h"
#include "schedules/targets/simt/simt_target.h"

namespace lw::rules {
namespace {

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
  drafts.push_back(std::move(draft));
}

}  // namespace

const Rule& groups_of_items() {
  static constexpr Rule rule = {"groups_of_items", Phase::kThreads, branch, nullptr, nullptr,
                                "simt"};
  return rule;
}

}  // namespace lw::rules
