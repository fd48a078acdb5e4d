// Maps that finish a product's results where they are held, so that these never go to DRAM: bias,
// requantisation, a residual. There are sketches with them and without: they take room that tiles
// could have.
#include <algorithm>

#include "schedules/npu/vector.h"
#include "schedules/space/rule.h"

namespace lw::rules {
namespace {

// Whether the map is all that reads the product.
bool finishes(const Nest& nest, int map, int product) {
  const int tensor = nest.stages[product].tensor;
  const std::vector<int> users = readers(nest, tensor);
  const bool reads = is_map(nest, map) && users.size() == 1 && users[0] == map &&
                     nest.program->tensors[tensor].role != Role::kOutput;
  if (!reads) return false;
  const std::optional<NpuProduct> found = product_of(nest, product);
  return found && is_for_array(*found);
}

void branch(Draft draft, std::vector<Draft>& drafts) {
  Draft finished = draft;
  const int stages = static_cast<int>(draft.nest.stages.size());
  for (int map = 0; map < stages; ++map) {
    for (int product = 0; product < map; ++product) {
      if (!finishes(finished.nest, map, product)) continue;
      Draft next = finished;
      fixed(next, "reverse_inline", {draft.nest.stages[map].name, draft.nest.stages[product].name});
      if (!next.failed && epilogue_code(next.nest, product).ok()) finished = std::move(next);
    }
  }
  const bool any = finished.sketch.steps.size() > draft.sketch.steps.size();
  if (any) {
    finished.name = "finished";
    drafts.push_back(std::move(finished));
  }
  drafts.push_back(std::move(draft));
}

}  // namespace

const Rule& finish() {
  static constexpr Rule rule = {"finish", Phase::kMerge, branch, nullptr, nullptr, "npu"};
  return rule;
}

}  // namespace lw::rules
