// A product by instructions that multiply matrices, by groups of sub-groups:
//
//   matrix_tile(C, i, j, k; open)              a sub-group's results
//   matrix_groups(C, i.0, j.0; open)           of a group: its sub-groups; outside of it, the grid
//   split(C, k.0; open)                        what is fetched at once
//   reorder(C, i.0.0, j.0.0, i.0.1, j.0.1, k.0.0, k.0.1)
//   parallel(C, i.0.0, j.0.0), items(C; 1, 2)
//   stage(C, A; open), share(A.copy; open)     and the same of B
//   pipeline(C; open)                          slots of what is shared
//
// Other axes of the result belong to the grid, other reductions run outside of k. By instructions of four
// sub-groups:
//
//   wide_tile(C, i, j, k; open)                a group's results, and its sub-groups' loop
//   reorder(C, i.0, j.0, i.1, k.0), parallel(C, i.0, j.0), items(C; 1, 1)
//   stage(C, A; at k.0), share(A.copy; open)   swizzled, and the same of B
//   pipeline(C; open), cluster(C; open), producer(C; open)
//
// and where rows are of two axes:
//
//   wide_tile(Y, x, j, k, y; open)
//   reorder(Y, y.0, x.0, j.0, y.1, x.1, k.0), parallel(Y, y.0, x.0, j.0), items(Y; 1, 2)
//
// What a factor along i is made of, where it is more than a read, may be copied as for other groups.
#include <algorithm>
#include <string>
#include <vector>

#include "schedules/space/matrix_sides.h"
#include "schedules/space/rule.h"
#include "src/base/message.h"

namespace lw::rules {
namespace {

bool takes(const Draft& d, int stage) {
  const Stage& s = d.nest.stages[stage];
  return d.matrices && s.place == Place::kRoot && matrix_sides(d.nest, stage).has_value();
}

// The loops of other axes, of results or of reductions.
void add_others(const Stage& s, const MatrixSides& sides, bool reductions,
                std::vector<std::string>* order) {
  for (int a = 0; a < static_cast<int>(s.axes.size()); ++a) {
    if (a == sides.m || a == sides.n || a == sides.k || a == sides.over) continue;
    if (s.axes[a].reduction == reductions && !loop_of(s, a).empty()) {
      order->push_back(loop_of(s, a));
    }
  }
}

// The loop over parts of a reduction that are added elsewhere, if there are any.
void add_parts(const Stage& s, std::vector<std::string>* order) {
  for (const Loop& loop : s.loops) {
    if (loop.parts.size() == 1 && is_factored(s, loop.parts[0])) order->push_back(loop.name);
  }
}

void tile_wide(Draft& d, int stage, const MatrixSides& sides) {
  const Stage s = d.nest.stages[stage];
  const std::string name = s.name, i = loop_of(s, sides.m), j = loop_of(s, sides.n),
                    k = loop_of(s, sides.k);
  std::vector<std::string> rows = {i};     // along the axes that they have, outer before inner
  if (sides.over >= 0) rows.insert(rows.begin(), loop_of(s, sides.over));
  if (rows.size() > 1) open(d, "wide_tile", {name, i, j, k, rows[0]}, {1, 64, 8});
  else open(d, "wide_tile", {name, i, j, k}, {1, 64});
  if (d.failed) return;
  std::vector<std::string> order{name};
  add_parts(s, &order);
  add_others(s, sides, false, &order);
  for (const std::string& row : rows) order.push_back(row + ".0");
  order.push_back(j + ".0");
  const int64_t grid = static_cast<int64_t>(order.size()) - 1;
  for (const std::string& row : rows) order.push_back(row + ".1");
  add_others(s, sides, true, &order);
  order.push_back(k + ".0");
  const int64_t shared = static_cast<int64_t>(rows.size());
  // With one loop of the grid and one of items.
  const int64_t depth = static_cast<int64_t>(order.size()) - grid - (shared - 1);
  fixed(d, "reorder", order, {0});
  fixed(d, "parallel", {name}, {0, grid});
  fixed(d, "items", {name}, {1, shared});
  if (d.failed) return;
  const bool made = d.nest.stages[find_stage(d.nest, name)].made;
  for (const Address& address : operands(d.nest, find_stage(d.nest, name))) {
    const std::string& tensor = d.nest.program->tensors[address.tensor].name;
    if (made && !uses(address, sides.n)) {  // a factor is made of it
      copy_for_group(d, name, tensor);
      continue;
    }
    fixed(d, "stage", {name, tensor}, {depth, -1, 0});
    open(d, "share", {name_of_copy(d.nest, name, tensor)}, {4});
  }
  optional(d, "pipeline", {name}, {1});
  optional(d, "cluster", {name}, {1, 0});
  optional(d, "producer", {name}, {0});
}

void tile(Draft& d, int stage) {
  const std::vector<MatrixSides> ways =
      d.wide_way < 0 ? std::vector<MatrixSides>() : wide_ways(d.nest, stage);
  if (!ways.empty()) {
    return tile_wide(d, stage, ways[std::min<size_t>(d.wide_way, ways.size() - 1)]);
  }
  const Stage s = d.nest.stages[stage];
  const MatrixSides sides = *matrix_sides(d.nest, stage);
  const std::string name = s.name, i = loop_of(s, sides.m), j = loop_of(s, sides.n),
                    k = loop_of(s, sides.k);
  open(d, "matrix_tile", {name, i, j, k}, {16, 8, 16});
  if (d.failed) return;
  open(d, "matrix_groups", {name, i + ".0", j + ".0"}, {1, 1});
  open(d, "split", {name, k + ".0"}, {1, 1});
  std::vector<std::string> order{name};
  add_parts(s, &order);
  add_others(s, sides, false, &order);
  order.insert(order.end(), {i + ".0.0", j + ".0.0"});
  const int64_t grid = static_cast<int64_t>(order.size()) - 1;
  order.insert(order.end(), {i + ".0.1", j + ".0.1"});
  add_others(s, sides, true, &order);
  order.insert(order.end(), {k + ".0.0", k + ".0.1"});
  fixed(d, "reorder", order, {0});
  fixed(d, "parallel", {name}, {0, grid});
  fixed(d, "items", {name}, {1, 2});
  if (d.failed) return;
  bool copies = false;
  for (const Address& address : operands(d.nest, find_stage(d.nest, name))) {
    copies = true;
    copy_for_group(d, name, d.nest.program->tensors[address.tensor].name);
  }
  if (copies) optional(d, "pipeline", {name}, {1});
}

}  // namespace

const Rule& group_matrix() {
  static constexpr Rule rule = {"group_matrix", Phase::kTile, nullptr, takes, tile, "simt"};
  return rule;
}

}  // namespace lw::rules
