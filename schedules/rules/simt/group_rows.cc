// What is computed row by row, a row by the items of a group:
//
//   deal(top, j; open), items(top.rf; all parts)       parts of the row, which all then combine
//   register_tile(top.rf, j.turn, j.run; open)
//   register_tile(top, j.part; open)
//   register_tile(E, j; open), items(E; open)          a row in local memory
//   register_tile(Y, j; open), split(Y, j.0; open)     the host: its rows are the grid
//   parallel(Y, rows), items(Y; open)
//
// Where a row is a sub-group's, of each stage
//
//   items(top; all of j, open)
//
// in tiles of few points, and nothing is combined by way of memory. Of a group of several, before,
//
//   sub_groups(Y, i; open), sub_groups(top, i)
//
// Neighbours in a group take neighbouring tiles of maps, so that what they load together lies
// together; of a reduction each takes every n-th run of the row, or one that is as long as its
// part, as suits processors, and in a sub-group neighbouring tiles.
#include <algorithm>

#include "schedules/space/rule.h"
#include "src/base/message.h"

namespace lw::rules {
namespace {

// The only axis of the stage, but for its host's rows, that has several points; -1: others do.
int row_axis(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  if (!s.axis_value.empty() || s.factored_axis >= 0) return -1;
  const int rows = s.place == Place::kAt ? find_loop(nest.stages[s.host], s.loop) + 1
                                         : loops_around_attached(nest, stage);
  int found = -1;
  for (int a = rows; a < static_cast<int>(s.axes.size()); ++a) {
    if (s.axes[a].extent < 2) continue;
    if (found >= 0) return -1;
    found = a;
  }
  return found;
}

bool stands_at_rows(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  return s.place == Place::kAt && s.copy_of < 0 && hosts_rows(nest, s.host);
}

// Of several sub-groups each computes what is one value of a row, too.
bool takes(const Draft& d, int stage) {
  const bool at_rows = stands_at_rows(d.nest, stage);
  return d.groups && (hosts_rows(d.nest, stage) || at_rows) &&
         (row_axis(d.nest, stage) >= 0 || (at_rows && d.several_sub_groups));
}

int64_t position_of(const Draft& d, const std::string& name, const std::string& loop) {
  return find_loop(d.nest.stages[find_stage(d.nest, name)], loop);
}

void tile_host(Draft& d, const std::string& name, const std::string& j, int64_t rows) {
  open(d, "register_tile", {name, j});
  open(d, "split", {name, j + ".0"}, {1, 0});
  fixed(d, "parallel", {name}, {0, rows});
  open(d, "items", {name}, {0, 0});
}

void tile_reduction_of_row(Draft& d, const std::string& name, const std::string& j) {
  open(d, "deal", {name, j});
  if (d.failed) return;
  const std::string partial = name + ".rf";
  fixed(d, "items", {partial}, {position_of(d, partial, j + ".part"), 1});
  open(d, "register_tile", {partial, j + ".turn", j + ".run"});
  open(d, "register_tile", {name, j + ".part"});
}

void tile_map_of_row(Draft& d, const std::string& name, const std::string& j) {
  open(d, "register_tile", {name, j});
  if (d.failed) return;
  fixed(d, "items", {name}, {position_of(d, name, j + ".0"), 1});
}

void tile_by_sub_group(Draft& d, int stage, const std::string& name, const std::string& j) {
  const int64_t rows = loops_around_attached(d.nest, stage);
  if (hosts_rows(d.nest, stage)) {
    fixed(d, "parallel", {name}, {0, rows});
  } else if (d.several_sub_groups) {
    const Stage& s = d.nest.stages[stage];
    const int row = find_loop(d.nest.stages[s.host], s.loop);
    fixed(d, "sub_groups", {name, loop_of(s, row)});
  }
  if (d.failed || j.empty()) return;
  const Decision numbers = {position_of(d, name, j), 1, 1};
  // Of several sub-groups each may compute its row as if it were alone.
  const bool may = d.several_sub_groups && !hosts_rows(d.nest, stage);
  may ? optional(d, "items", {name}, numbers) : open(d, "items", {name}, numbers);
}

void tile(Draft& d, int stage) {
  const std::string name = d.nest.stages[stage].name;
  const int axis = row_axis(d.nest, stage);
  const std::string j = axis < 0 ? "" : loop_of(d.nest.stages[stage], axis);
  if (d.sub_groups) {
    tile_by_sub_group(d, stage, name, j);
  } else if (hosts_rows(d.nest, stage)) {
    tile_host(d, name, j, loops_around_attached(d.nest, stage));
  } else if (is_map(d.nest, stage)) {
    tile_map_of_row(d, name, j);
  } else {
    tile_reduction_of_row(d, name, j);
  }
}

}  // namespace

const Rule& group_rows() {
  static constexpr Rule rule = {"group_rows", Phase::kTile, nullptr, takes, tile, "simt"};
  return rule;
}

}  // namespace lw::rules
