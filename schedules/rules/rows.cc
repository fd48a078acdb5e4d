// What feeds a map row by row (the maximum and sum of a softmax, the moments of a norm) is computed
// at the map's row loop, so that a row stays in the nearest cache.
#include "schedules/space/rule.h"

namespace lw::rules {
namespace {

void branch(Draft draft, std::vector<Draft>& drafts) {
  attach_all(draft, /*blocks=*/false);
  drafts.push_back(std::move(draft));
}

}  // namespace

const Rule& rows() {
  static constexpr Rule rule = {"rows", Phase::kAttach, branch};
  return rule;
}

}  // namespace lw::rules
