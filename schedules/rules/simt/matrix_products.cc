// Products that the target has instructions for which multiply matrices: sketches with them, beside
// those with multiply-adds.
#include "schedules/space/matrix_sides.h"
#include "schedules/space/rule.h"

namespace lw::rules {
namespace {

void branch(Draft draft, std::vector<Draft>& drafts) {
  bool any = false, any_wide = false;
  for (int s = 0; s < static_cast<int>(draft.nest.stages.size()); ++s) {
    const Place place = draft.nest.stages[s].place;
    any = any || (place == Place::kRoot && matrix_sides(draft.nest, s).has_value());
    any_wide = any_wide || (place == Place::kRoot && wide_sides(draft.nest, s).has_value());
  }
  if (any && !draft.dot_products) {
    Draft matrices = draft;
    matrices.name = "products of matrices";
    matrices.matrices = matrices.groups = matrices.chosen = true;
    if (any_wide) {
      Draft wide = matrices;
      wide.name = "products of matrices by four sub-groups";
      wide.wide_matrices = true;
      drafts.push_back(std::move(wide));
    }
    drafts.push_back(std::move(matrices));
  }
  drafts.push_back(std::move(draft));
}

}  // namespace

const Rule& matrix_products() {
  static constexpr Rule rule = {"matrix_products", Phase::kLanes, branch, nullptr, nullptr,
                                "simt"};
  return rule;
}

}  // namespace lw::rules
