// Products of narrow types that the target adds in groups: sketches with them, of items that are alone
// and of groups, beside those with multiply-adds.
#include "schedules/space/rule.h"

namespace lw::rules {
namespace {

void branch(Draft draft, std::vector<Draft>& drafts) {
  if (std::optional<Draft> dot = with_dot_products(draft)) {
    drafts.push_back(*dot);
    dot->name += ", groups of items";
    dot->groups = true;
    drafts.push_back(*std::move(dot));
  }
  drafts.push_back(std::move(draft));
}

}  // namespace

const Rule& group_dots() {
  static constexpr Rule rule = {"group_dots", Phase::kLanes, branch, nullptr, nullptr, "simt"};
  return rule;
}

}  // namespace lw::rules
