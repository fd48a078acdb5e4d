// A product on an NPU's array, its tiles in the machine's memories:
//
//   block_tile(C, i, j, k; open)           tiles, and rows of an instruction
//   reorder(C, i.0.1, j.0.1, k.0.1; open)  which weights stay in the array
//   stream(C, i.0.0, j.0.0, k.0.0; open)   which operand is fetched again; slots; the instruction
//
// Of several axes of a role the longest is cut, and of rows the two longest:
//
//   block_tile(C, y, x, co, ci; open)
//   reorder(C, x.0.1, co.0.1, ci.0.1; open)
//   stream(C, y.0, x.0.0, co.0.0, ci.0.0; open)
//
// The others run outside, but for sums, which run inside a tile. Before all that, where some of
// these can be one with the sum that is cut, in fewer instructions:
//
//   pack_windows(C, r, s, ci; open)        which are
#include "schedules/npu/product.h"

#include <algorithm>

#include "schedules/space/rule.h"

namespace lw::rules {
namespace {

bool takes(const Draft& d, int stage) {
  const std::optional<NpuProduct> product = product_of(d.nest, stage);
  return product && is_for_array(*product);
}

// The sums outside the one that instructions run along, at most two, in the order of the weights.
std::vector<std::string> window_loops(const Stage& s, const NpuProduct& product) {
  std::vector<std::string> loops;
  for (const std::vector<int64_t>& dim : product.b_steps) {
    for (int a = 0; a < static_cast<int>(dim.size()); ++a) {
      const bool other = product.roles[a] == AxisRole::kSum && a != product.sum;
      if (dim[a] == 0 || !other || s.axes[a].extent == 1) continue;
      const std::string name = loop_of(s, a);
      if (std::find(loops.begin(), loops.end(), name) == loops.end()) loops.push_back(name);
    }
  }
  if (loops.size() > 2) loops.erase(loops.begin(), loops.end() - 2);
  return loops;
}

void pack(Draft& d, int stage) {
  const Stage& s = d.nest.stages[stage];
  const NpuProduct product = *product_of(d.nest, stage);
  std::vector<std::string> names = window_loops(s, product);
  if (names.empty()) return;
  names.insert(names.begin(), s.name);
  names.push_back(loop_of(s, product.sum));
  const StepKind* const kind = find_step("pack_windows");
  if (kind->domain(d.nest, {kind, {names.begin(), names.end()}, {0}}).size() > 1) {
    open(d, kind->name, names, {0});
  }
}

void tile(Draft& d, int stage) {
  pack(d, stage);
  if (d.failed) return;
  const Stage& s = d.nest.stages[stage];
  const NpuProduct product = *product_of(d.nest, stage);
  const auto loop = [&](int axis) { return axis < 0 ? std::string() : loop_of(s, axis); };
  const int row = product.row, outer = product.outer_row;
  const std::string name = s.name, i = loop(row), j = loop(product.column), k = loop(product.sum);
  std::vector<std::string> cut = {name, i, j, k};
  std::vector<std::string> tiles = {name, i + ".0.0", j + ".0.0", k + ".0.0"};
  Decision numbers = {1, 1, 1, 1};
  if (outer >= 0 && s.axes[outer].extent > 1) {
    cut.insert(cut.begin() + 1, loop(outer));
    tiles.insert(tiles.begin() + (outer < row ? 1 : 2), loop(outer) + ".0");
    numbers.push_back(1);
  }
  open(d, "block_tile", cut, numbers);
  open(d, "reorder", {name, i + ".0.1", j + ".0.1", k + ".0.1"}, {0});
  open(d, "stream", tiles, {0, 1, 1, 1, 0});
}

}  // namespace

const Rule& product() {
  static constexpr Rule rule = {"product", Phase::kTile, nullptr, takes, tile, "npu"};
  return rule;
}

}  // namespace lw::rules
