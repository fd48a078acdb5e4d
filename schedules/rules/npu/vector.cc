// What the vector engine of an NPU computes: maps, and reductions that are no products.
//
//   vector_tile(Y, i, j; open)     boxes, slots
#include "schedules/npu/vector.h"

#include "schedules/space/rule.h"

namespace lw::rules {
namespace {

bool takes(const Draft& d, int stage) { return vector_code(d.nest, stage).ok(); }

void tile(Draft& d, int stage) {
  const Stage& s = d.nest.stages[stage];
  std::vector<std::string> names = {s.name};
  for (const Loop& loop : s.loops) names.push_back(loop.name);
  open(d, "vector_tile", std::move(names), Decision(s.loops.size() + 1, 1));
}

}  // namespace

const Rule& vector() {
  static constexpr Rule rule = {"vector", Phase::kTile, nullptr, takes, tile, "npu"};
  return rule;
}

}  // namespace lw::rules
