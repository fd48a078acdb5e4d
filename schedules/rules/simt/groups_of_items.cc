// Groups of several items, which fetch the operands of products together into local memory, or
// compute a row together: a choice beside those in which an item is alone, as suits processors. Where
// the target has sub-groups a row may be one's.
#include "schedules/space/rule.h"
#include "schedules/targets/simt/simt_target.h"

namespace lw::rules {
namespace {

bool is_product(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  return s.place == Place::kRoot && s.copy_of < 0 && !is_map(nest, stage) &&
         has_reuse(nest, stage);
}

void branch(Draft draft, std::vector<Draft>& drafts) {
  drafts.push_back(draft);
  bool products = false, rows = false, reductions = false;
  for (int s = 0; s < static_cast<int>(draft.nest.stages.size()); ++s) {
    products = products || is_product(draft.nest, s);
    rows = rows || hosts_rows(draft.nest, s);
    reductions = reductions || (reduces_rows(draft.nest, s) && !draft.vector_reduction);
  }
  draft.groups = true;
  if (rows || (products && !draft.vector_reduction)) {
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
