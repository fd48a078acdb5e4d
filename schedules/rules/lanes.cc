// Lanes of reductions: along an axis of the result, or along the reduction, where that makes sense.
#include <cmath>

#include "schedules/space/rule.h"

namespace lw::rules {
namespace {

// Whether lanes along reduction axis `axis` read every operand in whole vectors: as it lies in
// memory, or, where the result has too few columns for vectors, from a copy that is reused.
bool lanes_fit(const Nest& nest, int s, size_t axis) {
  const Tensor& tensor = nest.program->tensors[nest.stages[s].tensor];
  const bool narrow =
      !tensor.axes.empty() && tensor.axes.back().extent < 2 * stage_lanes(nest, s);
  bool contiguous = false;
  for (const Address& address : addresses(nest, s)) {
    const int64_t stride = std::abs(address.stride[axis]);
    contiguous = contiguous || stride == 1;
    if (stride <= 1) continue;
    if (!narrow || !reused(nest.stages[s], address) || !address.affine) return false;
  }
  return contiguous;
}

// Whether both ways of vectorizing some reduction make sense.
bool lanes_are_a_choice(const Nest& nest) {
  for (int s = 0; s < static_cast<int>(nest.stages.size()); ++s) {
    const Place place = nest.stages[s].place;
    if (is_map(nest, s) || place == Place::kEpilogue || place == Place::kInlined) continue;
    const Tensor& tensor = nest.program->tensors[nest.stages[s].tensor];
    for (size_t r = 0; r < tensor.reduce_axes.size(); ++r) {
      if (lanes_fit(nest, s, tensor.axes.size() + r)) return true;
    }
  }
  return false;
}

void branch(Draft draft, std::vector<Draft>& drafts) {
  draft.name = "lanes along the result";
  drafts.push_back(draft);
  if (!lanes_are_a_choice(draft.nest)) return;
  draft.name = "lanes along the reduction";
  draft.vector_reduction = true;
  drafts.push_back(std::move(draft));
}

}  // namespace

const Rule& lanes() {
  static constexpr Rule rule = {"lanes", Phase::kLanes, branch};
  return rule;
}

}  // namespace lw::rules
