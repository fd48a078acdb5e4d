// A reduction of what lies together, each of its results by a sub-group:
//
//   parallel(Y, all outside of j), items(Y; all of j, open)
//
// Of a group of several sub-groups, before that:
//
//   sub_groups(Y, i; open)
//
// Neighbours take neighbouring tiles, of few points.
#include "schedules/space/rule.h"

namespace lw::rules {
namespace {

bool takes(const Draft& d, int stage) { return d.sub_groups && reduces_rows(d.nest, stage); }

void tile(Draft& d, int stage) {
  const std::string name = d.nest.stages[stage].name;
  const int64_t rows = static_cast<int64_t>(d.nest.stages[stage].loops.size()) - 1;
  if (d.several_sub_groups) {
    open(d, "sub_groups", {name, d.nest.stages[stage].loops[rows - 1].name});
  }
  fixed(d, "parallel", {name}, {0, rows});
  open(d, "items", {name}, {d.several_sub_groups ? 2 : 1, 1, 1});
}

}  // namespace

const Rule& sub_group_reduction() {
  static constexpr Rule rule = {"sub_group_reduction", Phase::kTile, nullptr, takes, tile, "simt"};
  return rule;
}

}  // namespace lw::rules
