// Products of narrow types that the target adds in groups: a sketch with them, beside those with
// multiply-adds.
#include "schedules/space/rule.h"

namespace lw::rules {
namespace {

bool has_dot_products(const Nest& nest) {
  for (int s = 0; s < static_cast<int>(nest.stages.size()); ++s) {
    const Place place = nest.stages[s].place;
    if (place == Place::kInlined || place == Place::kEpilogue) continue;
    for (int a = 0; a < static_cast<int>(nest.stages[s].axes.size()); ++a) {
      if (dot_group(nest, s, a) > 1) return true;
    }
  }
  return false;
}

void branch(Draft draft, std::vector<Draft>& drafts) {
  if (has_dot_products(draft.nest)) {
    Draft dot = draft;
    dot.name = "dot products";
    dot.dot_products = dot.chosen = true;
    drafts.push_back(std::move(dot));
  }
  drafts.push_back(std::move(draft));
}

}  // namespace

const Rule& dot_products() {
  static constexpr Rule rule = {"dot_products", Phase::kLanes, branch, nullptr, nullptr, "cpu"};
  return rule;
}

}  // namespace lw::rules
