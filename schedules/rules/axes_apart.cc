// Elementwise maps run over all their axes as over one, or, in a sketch of their own, do not. Where
// there is no such map the two lead to the same, which the space holds once.
#include "schedules/space/rule.h"

namespace lw::rules {
namespace {

void branch(Draft draft, std::vector<Draft>& drafts) {
  drafts.push_back(draft);
  draft.flat = false;
  draft.name += ", axes apart";
  drafts.push_back(std::move(draft));
}

}  // namespace

const Rule& axes_apart() {
  static constexpr Rule rule = {"axes_apart", Phase::kAxes, branch};
  return rule;
}

}  // namespace lw::rules
