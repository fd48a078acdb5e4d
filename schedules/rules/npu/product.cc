// A product on an NPU's array, its tiles in the machine's memories:
//
//   block_tile(C, i, j, k; open)           tiles, and rows of an instruction
//   reorder(C, i.0.1, j.0.1, k.0.1; open)  which weights stay in the array
//   stream(C, i.0.0, j.0.0, k.0.0; open)   which operand is fetched again; slots; the instruction
//
// Of several axes of a role the longest is cut; the others run outside, but for sums, which run
// inside a tile.
#include "schedules/npu/product.h"

#include "schedules/space/rule.h"

namespace lw::rules {
namespace {

// The name of the loop over the longest axis of the role, the last of equals; "": there is none.
std::string longest(const Stage& s, const NpuProduct& product, AxisRole role) {
  std::string name;
  int64_t extent = 0;
  for (size_t a = 0; a < s.axes.size(); ++a) {
    if (product.roles[a] != role || s.axes[a].extent < extent) continue;
    extent = s.axes[a].extent;
    name = loop_of(s, static_cast<int>(a));
  }
  return name;
}

bool takes(const Draft& d, int stage) { return product_of(d.nest, stage).has_value(); }

void tile(Draft& d, int stage) {
  const Stage& s = d.nest.stages[stage];
  const NpuProduct product = *product_of(d.nest, stage);
  const std::string name = s.name, i = longest(s, product, AxisRole::kRow),
                    j = longest(s, product, AxisRole::kColumn),
                    k = longest(s, product, AxisRole::kSum);
  open(d, "block_tile", {name, i, j, k}, {1, 1, 1, 1});
  open(d, "reorder", {name, i + ".0.1", j + ".0.1", k + ".0.1"}, {0});
  open(d, "stream", {name, i + ".0.0", j + ".0.0", k + ".0.0"}, {0, 1, 1, 1, 0});
}

}  // namespace

const Rule& product() {
  static constexpr Rule rule = {"product", Phase::kTile, nullptr, takes, tile, "npu"};
  return rule;
}

}  // namespace lw::rules
