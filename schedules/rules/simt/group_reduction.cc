// Reductions at the root, a few results a group, each by many of its items: a sketch beside those
// in which a result is an item's, whose neighbours then read rows apart, and few of whom are busy
// where there are few results:
//
//   deal(Y, k; open)                           parts of the reduction, an item's each
//   register_tile(Y, k.part; open)             the parts are combined in local memory
//   split(Y, j; open)                          results of a group, an item's each
//   reorder(Y, j.0, j.1, k.part.0)
//   compute_at(Y.rf, Y; all outside of j.1), parallel(Y; the same)
//   register_tile(Y.rf, k.turn, k.run; open)
//   reorder(Y.rf, j, k.part, k.turn.0, k.run.0), items(Y.rf; j and k.part)
//   group_size(Y; open), items(Y; j.1)
//
// Neighbours take neighbouring parts of a result if what is read lies together along k. If it does
// along the results they take neighbouring results, and tiles are of these:
//
//   register_tile(Y, k.part, j; open), register_tile(Y.rf, k.turn, j; open)
//   reorder(Y.rf, k.part, j.0, k.turn.0, k.run), items(Y.rf; k.part and j.0)
//
// Where results are fewer than groups that keep the units busy, the first reduced axis is dealt to
// groups before, whose results a launch of its own combines:
//
//   deal(Y, i; a few groups for each unit, a run each)
#include <algorithm>

#include "schedules/space/rule.h"
#include "schedules/targets/simt/simt_target.h"
#include "src/base/message.h"

namespace lw::rules {
namespace {

constexpr int64_t kGroupsPerUnit = 4;
// What is read most serves no more results than this: beyond, register tiles of several do better.
constexpr int64_t kMostUses = 4;
constexpr int64_t kLeastTurns = 2;         // of what `simd` items accumulate

struct ReductionAxes {
  int result = -1, reduced = -1;
  bool along = false;                      // what is read lies together along the reduction
};

int64_t points_of(const Nest& nest, int stage, bool reduction) {
  int64_t points = 1;
  for (const NestAxis& axis : nest.stages[stage].axes) {
    if (axis.reduction == reduction) points *= axis.extent;
  }
  return points;
}

ReductionAxes reduction_axes(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  const std::vector<Address> list = addresses(nest, stage);
  const auto runs = [&](int a) {
    return a >= 0 && std::any_of(list.begin(), list.end(), [&](const Address& address) {
      return address.affine && std::abs(address.stride[a]) == 1;
    });
  };
  const int64_t simd = simt(*nest.target).simd;
  ReductionAxes axes;
  for (int a = 0; a < static_cast<int>(s.axes.size()); ++a) {
    if (!s.axes[a].reduction) {
      if (axes.result < 0 || s.axes[a].extent > 1) axes.result = a;
      continue;
    }
    const bool together = runs(a) && s.axes[a].extent >= simd;
    const bool wider = axes.reduced < 0 || s.axes[a].extent > s.axes[axes.reduced].extent;
    if (together || (wider && !axes.along)) axes.reduced = a;
    axes.along = axes.along || together;
  }
  axes.along = axes.along && !runs(axes.result);
  return axes;
}

// How many results what is read most serves each.
int64_t uses_of_most(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  int64_t least = points_of(nest, stage, false);
  for (const Address& address : addresses(nest, stage)) {
    int64_t uses_each = 1;
    for (int a = 0; a < static_cast<int>(s.axes.size()); ++a) {
      if (!s.axes[a].reduction && !uses(address, a)) uses_each *= s.axes[a].extent;
    }
    least = std::min(least, uses_each);
  }
  return least;
}

bool is_taken(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  if (s.place != Place::kRoot || s.copy_of >= 0 || is_map(nest, stage) || !s.axis_value.empty() ||
      s.factored_axis >= 0 || loops_around_attached(nest, stage) > 0 ||
      find_tensor(*nest.program, concat(s.name, ".rf")) >= 0) {
    return false;
  }
  const SimtTarget& target = simt(*nest.target);
  const ReductionAxes axes = reduction_axes(nest, stage);
  if (axes.reduced < 0 || s.axes[axes.reduced].extent < target.simd) return false;
  if (points_of(nest, stage, true) < kLeastTurns * target.simd) return false;
  if (uses_of_most(nest, stage) > kMostUses) return false;
  // Neighbours that each have a result would do as well.
  return axes.along ||
         points_of(nest, stage, false) <= kGroupsPerUnit * target.units * target.unit_items;
}

// The first reduced axis that has so many runs, to groups.
void deal_to_groups(Draft& d, int stage) {
  const Stage& s = d.nest.stages[stage];
  const SimtTarget& target = simt(*d.nest.target);
  const int64_t results = points_of(d.nest, stage, false);
  const int64_t groups = (kGroupsPerUnit * target.units + results - 1) / results;
  const int last = reduction_axes(d.nest, stage).reduced;
  if (groups < 2) return;
  for (int a = 0; a <= last; ++a) {
    if (!s.axes[a].reduction) continue;
    const int64_t least = a == last ? kLeastTurns * target.simd * groups : groups;
    if (s.axes[a].extent < least) continue;
    const int64_t run = (s.axes[a].extent + groups - 1) / groups;
    fixed(d, "deal", {s.name, loop_of(s, a)}, {groups, run});
    return;
  }
}

void branch(Draft draft, std::vector<Draft>& drafts) {
  drafts.push_back(draft);
  if (draft.vector_reduction || is_processor(simt(*draft.nest.target))) return;
  std::vector<std::string> names;
  for (int s = 0; s < static_cast<int>(draft.nest.stages.size()); ++s) {
    if (is_taken(draft.nest, s)) names.push_back(draft.nest.stages[s].name);
  }
  if (names.empty()) return;
  for (const std::string& name : names) deal_to_groups(draft, find_stage(draft.nest, name));
  draft.groups = draft.group_reductions = draft.chosen = true;
  draft.name += ", reductions by groups";
  drafts.push_back(std::move(draft));
}

bool takes(const Draft& d, int stage) {
  return d.group_reductions && is_taken(d.nest, stage) &&
         reduction_axes(d.nest, stage).result >= 0;
}

void tile_parts(Draft& d, const std::string& partial, const std::string& result,
                const std::string& reduced, bool along) {
  const std::string part = reduced + ".part", turn = reduced + ".turn", run = reduced + ".run";
  std::vector<std::string> order = {partial}, inner;
  const Stage& s = d.nest.stages[find_stage(d.nest, partial)];
  for (const Loop& loop : s.loops) {
    if (loop.name == part || loop.name == result || loop.name == turn || loop.name == run) continue;
    (is_reduction(s, loop) ? inner : order).push_back(loop.name);
  }
  const int64_t grid = static_cast<int64_t>(order.size()) - 1;
  if (along) {
    open(d, "register_tile", {partial, turn, run});
    order.insert(order.end(), {result, part});
    inner.insert(inner.end(), {turn + ".0", run + ".0"});
  } else {
    open(d, "register_tile", {partial, turn, result}, {1, 1, 0, 1});
    order.insert(order.end(), {part, result + ".0"});
    inner.insert(inner.end(), {turn + ".0", run});
  }
  order.insert(order.end(), inner.begin(), inner.end());
  fixed(d, "reorder", order, {0});
  fixed(d, "items", {partial}, {grid, 2});
}

void tile(Draft& d, int stage) {
  const ReductionAxes axes = reduction_axes(d.nest, stage);
  const Stage s = d.nest.stages[stage];
  const std::string name = s.name, partial = name + ".rf";
  const std::string result = loop_of(s, axes.result), reduced = loop_of(s, axes.reduced);
  open(d, "deal", {name, reduced});
  std::string j = result, part = reduced + ".part";
  if (axes.along) {
    open(d, "register_tile", {name, part});
  } else {
    open(d, "register_tile", {name, part, j}, {1, 1, 0, 1});
    j += ".0";
  }
  open(d, "split", {name, j}, {1, 1});
  std::vector<std::string> order = {name};
  for (int a = 0; a < static_cast<int>(s.axes.size()); ++a) {
    if (a != axes.result && !s.axes[a].reduction) order.push_back(loop_of(s, a));
  }
  order.push_back(j + ".0");
  const int64_t grid = static_cast<int64_t>(order.size()) - 1;
  order.insert(order.end(), {j + ".1", part + ".0"});
  fixed(d, "reorder", order, {0});
  fixed(d, "compute_at", {partial, name}, {grid});
  fixed(d, "parallel", {name}, {0, grid});
  if (d.failed) return;
  tile_parts(d, partial, result, reduced, axes.along);
  open(d, "group_size", {name});
  fixed(d, "items", {name}, {1, 1});
}

}  // namespace

const Rule& group_reduction() {
  static constexpr Rule rule = {"group_reduction", Phase::kThreads, branch, takes, tile, "simt"};
  return rule;
}

}  // namespace lw::rules
