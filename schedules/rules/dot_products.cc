// Products of narrow types that the target adds in groups: a sketch with them, beside those with
// multiply-adds.
#include "schedules/space/rule.h"

namespace lw::rules {
namespace {

void branch(Draft draft, std::vector<Draft>& drafts) {
  if (std::optional<Draft> dot = with_dot_products(draft)) drafts.push_back(*std::move(dot));
  drafts.push_back(std::move(draft));
}

}  // namespace

const Rule& dot_products() {
  static constexpr Rule rule = {"dot_products", Phase::kLanes, branch, nullptr, nullptr, "cpu"};
  return rule;
}

}  // namespace lw::rules
