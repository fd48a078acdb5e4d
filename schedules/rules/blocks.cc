// Products of matrices in a row, and what lies between them, at a block of rows of the last
// (schedules/space/fusion.cc): attention without its scores in memory, say. A sketch of its own,
// beside those that compute each product whole.
#include "schedules/space/rule.h"

namespace lw::rules {
namespace {

void branch(Draft draft, std::vector<Draft>& drafts) {
  if (draft.maps == Maps::kInlineCheap) {  // the others would come to much the same
    Draft blocks = draft;
    if (attach_all(blocks, /*blocks=*/true)) {
      blocks.name = "blocks of rows";
      blocks.chosen = true;
      drafts.push_back(std::move(blocks));
    }
  }
  drafts.push_back(std::move(draft));
}

}  // namespace

const Rule& blocks() {
  static constexpr Rule rule = {"blocks", Phase::kAttach, branch};
  return rule;
}

}  // namespace lw::rules
