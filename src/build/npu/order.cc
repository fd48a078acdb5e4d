#include <algorithm>

#include "src/build/npu/hazards.h"

namespace lw::npu_build {

// Two passes: where each may stand at the earliest, and the operations in that order. Engines keep
// theirs: what one does never overtakes what it did before.
std::vector<int32_t> fill_early(const Operations& operations) {
  const int32_t count = operations.count();
  const auto index = [](int32_t i) { return static_cast<size_t>(i); };
  Hazards hazards;
  // The number that each stands at or, if it moves, behind; -1: before all.
  std::vector<int32_t> home(index(count));
  // Those that move behind n, a chain from first[n + 1], as they were.
  std::vector<int32_t> first(index(count) + 1, -1), last(first), next(index(count), -1);
  std::array<int32_t, npu::kEngines> own;
  own.fill(-1);
  for (int32_t i = 0; i < count; ++i) {
    const int engine = operations.engine(i), lane = lane_of(operations.instruction(i));
    const std::span<const Touch> touches = operations.touches(i);
    home[index(i)] = i;
    if (operations.fills(i)) {
      int32_t after = own[engine];
      for (const int32_t number : hazards.before(touches, lane)) {
        if (number >= 0) after = std::max(after, home[index(number)]);
      }
      home[index(i)] = after;
      int32_t& tail = last[index(after + 1)];
      (tail < 0 ? first[index(after + 1)] : next[index(tail)]) = i;
      tail = i;
    }
    own[engine] = home[index(i)];
    hazards.note(touches, lane, i);
  }
  std::vector<int32_t> order;
  order.reserve(index(count));
  for (int32_t i = -1; i < count; ++i) {
    if (i >= 0 && !operations.fills(i)) order.push_back(i);
    for (int32_t moved = first[index(i + 1)]; moved >= 0; moved = next[index(moved)]) {
      order.push_back(moved);
    }
  }
  return order;
}

}  // namespace lw::npu_build
