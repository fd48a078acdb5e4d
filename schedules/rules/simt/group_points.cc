// Maps, and reductions that are no products, by groups:
//
//   register_tile(Y, i, j; open)               an item's points
//   split(Y, i.0; open), split(Y, j.0; open)   of a group: its items; outside of it, the grid
//   split(Y, k.0; open)                        of a reduction: what is fetched at once
//   reorder(Y, i.0.0, j.0.0, i.0.1, j.0.1, k.0.0, k.0.1)
//   parallel(Y, i.0.0, j.0.0), items(Y; open)
//   stage(Y, X; open), share(X.copy; open)     what lies across (a transpose, rows that are summed)
//   pipeline(Y; open)
//
// j is the last axis, i one along which something that is read is contiguous, or else that before
// j. Where what is read is contiguous along the reduction alone, an item's vectors run along that.
// Elementwise maps run over all of their axes as one.
#include <algorithm>

#include "schedules/space/rule.h"
#include "src/base/message.h"

namespace lw::rules {
namespace {

struct PointAxes {
  int vector = -1, beside = -1, reduction = -1;
  bool across = false;                     // something is contiguous along `beside`
  bool along = false;                      // or along the reduction alone
  std::vector<int> grid, outer;            // the others, spatial and not
};

PointAxes point_axes(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  const std::vector<Address> list = addresses(nest, stage);
  const auto runs = [&](int a) {
    return std::any_of(list.begin(), list.end(), [&](const Address& address) {
      return address.affine && address.stride[a] == 1;
    });
  };
  PointAxes axes;
  for (int a = 0; a < static_cast<int>(s.axes.size()); ++a) {
    if (s.axes[a].extent < 2) continue;
    if (s.axes[a].reduction) {
      if (axes.reduction < 0 || runs(a) || !runs(axes.reduction)) axes.reduction = a;
    } else {
      axes.vector = a;
    }
  }
  if (axes.vector < 0) return axes;
  axes.along = axes.reduction >= 0 && runs(axes.reduction) && !runs(axes.vector);
  for (int a = 0; a < axes.vector; ++a) {
    if (s.axes[a].reduction || s.axes[a].extent < 2) continue;
    if (!axes.across || runs(a)) axes.beside = a;
    axes.across = axes.across || runs(a);
  }
  for (int a = 0; a < static_cast<int>(s.axes.size()); ++a) {
    if (a == axes.vector || a == axes.beside || a == axes.reduction) continue;
    (s.axes[a].reduction ? axes.outer : axes.grid).push_back(a);
  }
  return axes;
}

bool takes(const Draft& d, int stage) {
  const Stage& s = d.nest.stages[stage];
  const bool hosts = std::any_of(d.nest.stages.begin(), d.nest.stages.end(), [&](const Stage& at) {
    return at.place == Place::kAt && at.host == stage;
  });
  return d.groups && s.place == Place::kRoot && s.copy_of < 0 && !hosts &&
         s.axis_value.empty() && s.factored_axis < 0 &&
         !(d.sub_groups && reduces_rows(d.nest, stage)) &&
         (is_map(d.nest, stage) || !has_reuse(d.nest, stage));
}

// One loop over all points.
void tile_all(Draft& d, const std::string& name) {
  fuse_all(d, name);
  if (d.failed) return;
  const std::string loop = d.nest.stages[find_stage(d.nest, name)].loops[0].name;
  open(d, "register_tile", {name, loop}, {1, 1});
  open(d, "split", {name, loop + ".0"}, {1, 1});
  fixed(d, "parallel", {name}, {0, 1});
  open(d, "items", {name}, {0, 0});
}

// What neighbours would read apart from each other.
void fetch_together(Draft& d, const std::string& name, const PointAxes& axes) {
  std::vector<int> seen;
  const int stage = find_stage(d.nest, name);
  for (const Address& address : addresses(d.nest, stage)) {
    const Tensor& tensor = d.nest.program->tensors[address.tensor];
    const bool again = std::find(seen.begin(), seen.end(), address.tensor) != seen.end();
    const bool apart = uses(address, axes.vector) && std::abs(address.stride[axes.vector]) > 1;
    if (again || !address.affine || tensor.shape.size() < 2 || !apart) continue;
    seen.push_back(address.tensor);
    copy_for_group(d, name, tensor.name);
  }
  if (!seen.empty() && axes.reduction >= 0) optional(d, "pipeline", {name}, {1});
}

void tile(Draft& d, int stage) {
  const std::string name = d.nest.stages[stage].name;
  if (d.flat && is_map(d.nest, stage) && elementwise(d.nest, stage) &&
      attempt(d, [&](Draft& next) { tile_all(next, name); })) {
    return;
  }
  const PointAxes axes = point_axes(d.nest, stage);
  if (axes.vector < 0) {
    d.failed = true;
    d.why = concat(name, " is infeasible: no points for several items");
    return;
  }
  const Stage s = d.nest.stages[stage];
  std::string j = loop_of(s, axes.vector), i, k;
  if (axes.beside >= 0) i = loop_of(s, axes.beside);
  if (axes.reduction >= 0) k = loop_of(s, axes.reduction);
  // Items whose tiles are alike run the same code, and may meet: what is beyond the end is masked.
  std::vector<std::string> tiled = {name};
  Decision tails;
  const auto add_tile = [&](std::string& loop, int64_t tail) {
    tiled.push_back(loop);
    tails.push_back(tail);
    loop += ".0";
  };
  if (!k.empty()) add_tile(k, 0);
  if (axes.across && !axes.along) add_tile(i, 1);
  if (!axes.along) add_tile(j, 1);
  Decision numbers(tails.size(), 1);
  numbers.insert(numbers.end(), tails.begin(), tails.end());
  open(d, "register_tile", tiled, numbers);
  for (const std::string& loop : {i, j}) {
    if (!loop.empty()) open(d, "split", {name, loop}, {1, 1});
  }
  if (!k.empty()) open(d, "split", {name, k}, {1, 0});
  if (d.failed) return;
  std::vector<std::string> order = {name};
  const auto add = [&](const std::string& loop, const char* part) {
    if (!loop.empty()) order.push_back(loop + part);
  };
  for (int a : axes.grid) add(loop_of(s, a), "");
  add(i, ".0");
  add(j, ".0");
  const int64_t grid = static_cast<int64_t>(order.size()) - 1;
  add(i, ".1");
  add(j, ".1");
  for (int a : axes.outer) add(loop_of(s, a), "");
  add(k, ".0");
  add(k, ".1");
  fixed(d, "reorder", order, {0});
  fixed(d, "parallel", {name}, {0, grid});
  open(d, "items", {name}, {0, 0});
  if (!d.failed) fetch_together(d, name, axes);
}

}  // namespace

const Rule& group_points() {
  static constexpr Rule rule = {"group_points", Phase::kTile, nullptr, takes, tile, "simt"};
  return rule;
}

}  // namespace lw::rules
