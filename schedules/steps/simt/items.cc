// items(C; 1, 2)
//   before  parallel i.0.0*j.0.0: 64      after  parallel i.0.0*j.0.0: 64
//             i.0.1: 4 of 8                        item i.0.1*j.0.1: 16 of 8 x 48
//               j.0.1: 4 of 48                       k.0: 512
//                 k.0: 512
// A run of loops inside of the grid, from a position on and so many, becomes one whose iterations
// the items of a group share; there are as many items. 0 loops: the item is alone in its group. Of
// a stage that stands at another's loop, outside of those that items share there, any run of loops:
// the items compute it together, its result is where all of them see it. Where the target has
// sub-groups the loop may run a sum, a maximum or a minimum: the group is one of these then, whose
// items exchange what each has accumulated, and all have it.
//
// items(C; 1, 1, 4): the last loop, over single points, in tiles of 4, which are an item's lanes.
// Few of them are worth trying: that an item waits its company hides.
#include <algorithm>

#include "schedules/domains.h"
#include "schedules/legality.h"
#include "schedules/steps/simt/item_registers.h"
#include "schedules/targets/simt/simt_target.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/expr.h"

namespace lw {
namespace {

// Of a tile that items exchange: more are better off with an item each.
constexpr int64_t kMostExchanged = 16;

// Of loops of a reduction: that registers may be exchanged, and that all come to where they are.
absl::Status check_exchange(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  const Tensor& tensor = nest.program->tensors[s.tensor];
  if (s.place != Place::kAt && !has_parallel(s)) {
    return infeasible(concat(s.name, " is of no group"));
  }
  const bool wide = is_narrow(tensor.type) || size_of(tensor.type) >= 4;  // the one: as f32
  if (tensor.reduce == Reduce::kProd || !wide) {
    return infeasible(concat("items do not exchange what ", s.name, " accumulates"));
  }
  for (const Stage& other : nest.stages) {
    if (other.place == Place::kAt && other.host == stage) {
      return infeasible(concat(other.name, " stands at a loop of ", s.name));
    }
  }
  return absl::OkStatus();
}

absl::Status check_shareable(const Nest& nest, int stage, int position, bool exchanges) {
  const Stage& s = nest.stages[stage];
  if (position < 0 || position >= tile_begin(s)) {
    return infeasible(concat(s.name, " has no such loop"));
  }
  const Loop& loop = s.loops[position];
  if (loop.kind != LoopKind::kSerial) return infeasible(concat(loop.name, " is not serial"));
  if (is_reduction(s, loop) != exchanges) {
    return infeasible(concat(loop.name, " runs ", exchanges ? "no" : "a", " reduction"));
  }
  return absl::OkStatus();
}

// A tile that is moved back is computed again, by another item at the same time.
bool moves_back(const Stage& stage, const Loop& shared) {
  const auto is_uneven = [&](const LoopPart& part) {
    return stage.axes[part.axis].extent % part.tile != 0 &&
           std::any_of(shared.parts.begin(), shared.parts.end(),
                       [&](const LoopPart& other) { return other.axis == part.axis; });
  };
  return std::any_of(stage.loops.begin(), stage.loops.end(), [&](const Loop& loop) {
    return loop.tail == Tail::kShift &&
           std::any_of(loop.parts.begin(), loop.parts.end(), is_uneven);
  });
}

// Whether the items would exchange what they accumulate in the loop.
bool is_exchanged(const Nest& nest, int stage, int position) {
  const Stage& s = nest.stages[stage];
  return simt(*nest.target).sub_group > 1 && position >= 0 && position < tile_begin(s) &&
         is_reduction(s, s.loops[position]);
}

absl::Status share_loops(Nest& nest, int stage, int position, int64_t count) {
  const SimtTarget& target = simt(*nest.target);
  const bool exchanges = is_exchanged(nest, stage, position);
  if (exchanges && nest.stages[stage].matrix >= 0) {
    return infeasible(concat("sub-groups share the sums of ", nest.stages[stage].name, " already"));
  }
  if (exchanges) {
    RETURN_IF_ERROR(check_exchange(nest, stage));
  } else if (nest.stages[stage].place == Place::kAt && !nest.stages[stage].epilogue.empty()) {
    return infeasible(concat("more than ", nest.stages[stage].name, " would be computed together"));
  }
  for (int64_t n = 0; n < count; ++n) {
    RETURN_IF_ERROR(check_shareable(nest, stage, position + (n > 0), exchanges));
    if (n > 0) RETURN_IF_ERROR(merge_loops(nest, stage, position));
  }
  Stage& s = nest.stages[stage];
  // A tile of matrices is a sub-group's.
  const bool matrices = s.matrix >= 0;
  const int64_t each = matrices ? target.sub_group : 1;
  const int64_t shared =
      std::min(trips(s, position), shared_iterations(nest, stage, s.loops[position]));
  const int64_t items = s.items > 0 ? s.items : shared * each;
  if (exchanges) {
    if (trips(s, position) < 2) return infeasible("a single tile is nothing to share");
    Stage& root = nest.stages[root_of(nest, stage)];
    if (root.items > 0 && root.sub_group == 0) {
      return infeasible(concat("a group of ", root.items, " items is no sub-group"));
    }
    if (root.items == 0) root.items = root.sub_group = target.sub_group;
  } else if (s.place == Place::kAt) {
    s.memory = kLocalMemory;
  } else if (items > target.group_items) {
    return infeasible(concat("a group of ", items, " items, of ", target.group_items));
  }
  RETURN_IF_ERROR(check_item_registers(nest, stage, items));
  if (moves_back(s, s.loops[position])) {
    return infeasible(concat("two items would compute the end of ", s.loops[position].name));
  }
  s.loops[position].kind = LoopKind::kItem;
  if (matrices) s.items = items, s.sub_group = target.sub_group;
  return check_legal(nest, stage);
}

// Only inside of a grid, and once, beside a loop that is dealt to sub-groups.
absl::Status check_grid(const Nest& nest, int at) {
  const Stage &stage = nest.stages[at], &root = nest.stages[root_of(nest, at)];
  const int of_sub_groups = has_several_sub_groups(root) ? 1 : 0;
  const bool attached = stage.place == Place::kAt && stage.copy_of < 0;
  if (!attached && (stage.place != Place::kRoot || !has_parallel(stage))) {
    return infeasible(concat(stage.name, " has no grid"));
  }
  const auto shared = std::count_if(stage.loops.begin(), stage.loops.end(), [](const Loop& loop) {
    return loop.kind == LoopKind::kItem;
  });
  if (shared > of_sub_groups) return infeasible("its items share a loop already");
  return absl::OkStatus();
}

// Of the loops, that behind the grid's.
int first_inside(const Stage& stage) { return stage.place == Place::kRoot ? 1 : 0; }

absl::Status cut_into_lanes(Nest& nest, int stage, int64_t position, int64_t points) {
  Stage& s = nest.stages[stage];
  const int64_t last = static_cast<int64_t>(s.loops.size()) - 1;
  if (position != last || !is_plain(s.loops[last])) {
    return infeasible(concat(s.name, " ends in no plain loop ", position));
  }
  RETURN_IF_ERROR(split_loop(nest, stage, static_cast<int>(last), {&points, 1}, Tail::kCompose));
  nest.stages[stage].loops.back().kind = LoopKind::kVector;
  return absl::OkStatus();
}

absl::Status apply_items(Nest& nest, const Step& step) {
  RETURN_IF_ERROR(expect(step, {1, 1, 2, 3}));
  if (step.numbers[1] == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int stage, target_stage(nest, step));
  RETURN_IF_ERROR(check_grid(nest, stage));
  const int64_t loops = static_cast<int64_t>(nest.stages[stage].loops.size());
  const int64_t first = step.numbers[0], count = step.numbers[1];
  if (first < first_inside(nest.stages[stage]) || count < 0 || first > loops ||
      count > loops - first) {
    return infeasible(concat("no loops ", first, " to ", first + count, " inside of the grid"));
  }
  if (step.numbers.size() > 2) {
    RETURN_IF_ERROR(cut_into_lanes(nest, stage, first, step.numbers[2]));
  }
  return share_loops(nest, stage, static_cast<int>(first), count);
}

// Of the same loops.
std::vector<Decision> lanes_domain(const Nest& nest, const Step& step) {
  std::vector<Decision> domain;
  const absl::StatusOr<int> stage = target_stage(nest, step);
  for (int64_t points = 1; stage.ok() && points <= stage_lanes(nest, *stage); points *= 2) {
    Decision numbers = step.numbers;
    numbers[2] = points;
    if (applies(nest, step, numbers)) domain.push_back(numbers);
  }
  return domain;
}

std::vector<Decision> items_domain(const Nest& nest, const Step& step) {
  if (step.numbers.size() > 2) return lanes_domain(nest, step);
  const Decision alone = {0, 0};
  const absl::StatusOr<int> stage = target_stage(nest, step);
  if (!stage.ok()) return {alone};
  const Stage& s = nest.stages[*stage];
  // A sub-group has its items in any case: alone none of them is. Of a grid's items in step one
  // that is leaves the others idle.
  const bool of_sub_groups = s.items > 0 || s.matrix >= 0;
  const bool idle = s.place == Place::kRoot && !is_processor(simt(*nest.target));
  std::vector<Decision> domain;
  if (!of_sub_groups && !idle) domain.push_back(alone);
  const int end = check_grid(nest, *stage).ok() ? tile_begin(s) : 0;
  for (int position = first_inside(s); position < end; ++position) {
    for (int64_t count = 1;; ++count) {
      if (is_exchanged(nest, *stage, position) && tile_points(s) > kMostExchanged) break;
      Nest joined = nest;
      if (!share_loops(joined, *stage, position, count).ok()) break;
      const bool many = trips(joined.stages[*stage], position) > 1;
      if (many || s.matrix >= 0) domain.push_back({position, count});
    }
  }
  if (domain.empty() && !of_sub_groups) domain.push_back(alone);
  return domain;
}

}  // namespace

const StepKind& items() {
  static constexpr StepKind kind = {"items", 1, apply_items, items_domain, "simt"};
  return kind;
}

}  // namespace lw
