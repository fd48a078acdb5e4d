// Groups of several items, which fetch the operands of products together into local memory, or
// compute a row together: a choice beside those in which an item is alone, as suits processors.
#include "schedules/space/rule.h"

namespace lw::rules {
namespace {

bool is_product(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  return s.place == Place::kRoot && s.copy_of < 0 && !is_map(nest, stage) &&
         has_reuse(nest, stage);
}

void branch(Draft draft, std::vector<Draft>& drafts) {
  drafts.push_back(draft);
  bool products = false, rows = false;
  for (int s = 0; s < static_cast<int>(draft.nest.stages.size()); ++s) {
    products = products || is_product(draft.nest, s);
    rows = rows || hosts_rows(draft.nest, s);
  }
  if (!rows && (!products || draft.vector_reduction)) return;
  draft.groups = true;
  draft.name += ", groups of items";
  drafts.push_back(std::move(draft));
}

}  // namespace

const Rule& groups_of_items() {
  static constexpr Rule rule = {"groups_of_items", Phase::kThreads, branch, nullptr, nullptr,
                                "simt"};
  return rule;
}

}  // namespace lw::rules
