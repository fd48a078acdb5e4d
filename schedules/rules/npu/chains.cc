// Chains of maps: one that a single map reads, at its own points, disappears into it, so that what
// lies between them never goes to DRAM.
#include "schedules/npu/vector.h"
#include "schedules/space/rule.h"

namespace lw::rules {
namespace {

// The map that alone reads the stage, a map too; -1: there is none.
int only_reader(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  const Tensor& tensor = nest.program->tensors[s.tensor];
  if (!is_map(nest, stage) || tensor.role == Role::kOutput || s.place != Place::kRoot) return -1;
  const std::vector<int> users = readers(nest, s.tensor);
  const bool one = users.size() == 1 && is_map(nest, users[0]) &&
                   points_read(nest, users[0], s.tensor) == 1 &&
                   nest.program->tensors[nest.stages[users[0]].tensor].shape == tensor.shape;
  return one ? users[0] : -1;
}

void branch(Draft draft, std::vector<Draft>& drafts) {
  for (int s = static_cast<int>(draft.nest.stages.size()) - 1; s >= 0; --s) {
    const int reader = only_reader(draft.nest, s);
    if (reader < 0) continue;
    Draft next = draft;
    fixed(next, "inline_producer", {draft.nest.stages[s].name});
    // What only several stages can compute stays several.
    if (!next.failed && vector_code(next.nest, reader).ok()) draft = std::move(next);
  }
  drafts.push_back(std::move(draft));
}

}  // namespace

const Rule& chains() {
  static constexpr Rule rule = {"chains", Phase::kMerge, branch, nullptr, nullptr, "npu"};
  return rule;
}

}  // namespace lw::rules
