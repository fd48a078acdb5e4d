// A product, by groups:
//
//   dot(C, k; 4)                               where products are added in groups
//   register_tile(C, k, i, j; open)            an item's results
//   split(C, i.0; open), split(C, j.0; open)   of a group: its items; outside of it, the grid
//   split(C, k.0; open)                        what is fetched at once
//   reorder(C, i.0.0, j.0.0, i.0.1, j.0.1, k.0.0, k.0.1)
//   parallel(C, i.0.0, j.0.0), items(C; open)
//   stage(C, A; open), share(A.copy; open)     and the same of B; where the whole is copied,
//   parallel(A.copy; open), items(A.copy; open)  by groups too
//   pipeline(C; open)                          slots of what is shared
//
// Other axes of the result belong to the grid, other reductions run outside of k.
#include <algorithm>

#include "schedules/space/rule.h"
#include "src/base/message.h"

namespace lw::rules {
namespace {

struct ProductAxes {
  int vector = -1, rows = -1, reduction = -1;
  std::vector<int> grid, outer;            // the others, spatial and not
};

ProductAxes axes_of(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  const std::vector<Address> list = addresses(nest, stage);
  ProductAxes axes;
  for (int a = 0; a < static_cast<int>(s.axes.size()); ++a) {
    if (s.axes[a].extent < 2) continue;
    (s.axes[a].reduction ? axes.reduction : axes.vector) = a;
  }
  // Rows: along which an operand that moves with the lanes stays the same; the longest.
  int64_t longest = 0;
  for (int a = 0; a < static_cast<int>(s.axes.size()); ++a) {
    if (a == axes.vector || s.axes[a].reduction || s.axes[a].extent < 2) continue;
    const bool saves = std::any_of(list.begin(), list.end(), [&](const Address& address) {
      return !uses(address, a) && uses(address, axes.vector);
    });
    if (saves && s.axes[a].extent >= longest) longest = s.axes[a].extent, axes.rows = a;
  }
  for (int a = 0; a < static_cast<int>(s.axes.size()); ++a) {
    if (a == axes.vector || a == axes.rows || a == axes.reduction) continue;
    (s.axes[a].reduction ? axes.outer : axes.grid).push_back(a);
  }
  return axes;
}

bool takes(const Draft& d, int stage) {
  const Stage& s = d.nest.stages[stage];
  return d.groups && s.place == Place::kRoot && s.copy_of < 0 && !is_map(d.nest, stage) &&
         has_reuse(d.nest, stage) && s.axis_value.empty() && s.factored_axis < 0;
}

void tile(Draft& d, int stage) {
  const ProductAxes axes = axes_of(d.nest, stage);
  if (axes.vector < 0 || axes.rows < 0 || axes.reduction < 0) {
    d.failed = true;
    d.why = concat(d.nest.stages[stage].name, " is infeasible: no product of rows and columns");
    return;
  }
  const Stage s = d.nest.stages[stage];
  const std::string name = s.name, i = loop_of(s, axes.rows), j = loop_of(s, axes.vector),
                    k = loop_of(s, axes.reduction);
  // Items whose tiles are alike run the same code, and may meet: what is beyond the end is masked.
  const int64_t group = d.dot_products ? dot_group(d.nest, stage, axes.reduction) : 1;
  if (group > 1) fixed(d, "dot", {name, k}, {group});
  open(d, "register_tile", {name, k, i, j}, {1, 1, 1, 0, 1, 1});
  if (d.failed) return;
  for (const std::string& loop : {i, j}) open(d, "split", {name, loop + ".0"}, {1, 1});
  open(d, "split", {name, k + ".0"}, {1, 0});
  std::vector<std::string> order{name};
  const auto add = [&](const std::vector<int>& others) {
    for (int a : others) {
      if (!loop_of(s, a).empty()) order.push_back(loop_of(s, a));
    }
  };
  add(axes.grid);
  order.insert(order.end(), {i + ".0.0", j + ".0.0"});
  const int64_t grid = static_cast<int64_t>(order.size()) - 1;
  order.insert(order.end(), {i + ".0.1", j + ".0.1"});
  add(axes.outer);
  order.insert(order.end(), {k + ".0.0", k + ".0.1"});
  fixed(d, "reorder", order, {0});
  fixed(d, "parallel", {name}, {0, grid});
  open(d, "items", {name}, {0, 0});
  if (d.failed) return;
  bool copies = false;
  for (const Address& address : operands(d.nest, find_stage(d.nest, name))) {
    if (!reused(d.nest.stages[find_stage(d.nest, name)], address)) continue;
    copies = true;
    copy_for_group(d, name, d.nest.program->tensors[address.tensor].name);
  }
  if (copies) optional(d, "pipeline", {name}, {1});
}

}  // namespace

const Rule& group_tile() {
  static constexpr Rule rule = {"group_tile", Phase::kTile, nullptr, takes, tile, "simt"};
  return rule;
}

}  // namespace lw::rules
