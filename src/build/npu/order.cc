#include <algorithm>

#include "src/build/npu/hazards.h"

namespace lw::npu_build {

// Two passes: where each may stand at the earliest, and the operations in that order. Engines keep
// theirs: what one does never overtakes what it did before.
std::vector<Operation> fill_early(std::vector<Operation> operations) {
  const int64_t count = static_cast<int64_t>(operations.size());
  Hazards hazards;
  // Of what moves: the number after which it comes. `behind[n]`: those after n, as they were.
  std::vector<std::vector<int64_t>> behind(static_cast<size_t>(count) + 1);
  std::array<int64_t, npu::kEngines> last;
  last.fill(-1);
  std::vector<int64_t> home(static_cast<size_t>(count));  // the number that it stands at or behind
  for (int64_t i = 0; i < count; ++i) {
    const Operation& operation = operations[static_cast<size_t>(i)];
    int64_t& own = last[static_cast<int>(operation.engine())];
    if (operation.fills) {
      int64_t after = own;
      for (const int64_t number : hazards.before(operation)) {
        if (number >= 0) after = std::max(after, home[static_cast<size_t>(number)]);
      }
      home[static_cast<size_t>(i)] = after;
      behind[static_cast<size_t>(after + 1)].push_back(i);
    } else {
      home[static_cast<size_t>(i)] = i;
    }
    own = home[static_cast<size_t>(i)];
    hazards.note(operation, i);
  }
  std::vector<Operation> ordered;
  ordered.reserve(operations.size());
  for (int64_t i = -1; i < count; ++i) {
    if (i >= 0 && !operations[static_cast<size_t>(i)].fills) {
      ordered.push_back(std::move(operations[static_cast<size_t>(i)]));
    }
    for (const int64_t moved : behind[static_cast<size_t>(i + 1)]) {
      ordered.push_back(std::move(operations[static_cast<size_t>(moved)]));
    }
  }
  return ordered;
}

}  // namespace lw::npu_build
