// sub_groups(Y, i; 4)
//   before  i: 64           after  i.0: 16 of 4
//             j: 256                 item i.1: 4
//                                      j: 256
// So many iterations are a group's, each of them a sub-group's, by whose items `items` then has a
// loop inside computed. What stands at the loop is the group's too, at i.0, where
//
// sub_groups(top, i)
//   before  i: 64           after  item i: 64
//
// deals its rows, as many as the group has of sub-groups, to these as well.
#include <algorithm>

#include "schedules/access.h"
#include "schedules/domains.h"
#include "schedules/legality.h"
#include "schedules/targets/simt/simt_target.h"
#include "src/base/check.h"
#include "src/base/message.h"

namespace lw {
namespace {

constexpr int64_t kMostSubGroups = 8;      // of a group: what is worth trying

absl::StatusOr<int> dealt_rows(const Nest& nest, int stage, const Step& step) {
  const Stage& s = nest.stages[stage];
  ASSIGN_OR_RETURN(const int position, loop_position(s, step.names[1]));
  if (!is_plain(s.loops[position]) || is_reduction(s, s.loops[position])) {
    return infeasible(concat(step.names[1], " is no plain loop of results"));
  }
  if (has_items(s)) return infeasible("its items share a loop already");
  return position;
}

// Of a stage at the root, whose groups are as large then.
absl::Status deal_grid(Nest& nest, int stage, int position, int64_t count) {
  const SimtTarget& target = simt(*nest.target);
  Stage& s = nest.stages[stage];
  const std::string name = s.loops[position].name;
  if (target.sub_group < 2) return infeasible("the target has no sub-groups");
  if (s.place != Place::kRoot || s.items > 0 || has_parallel(s)) {
    return infeasible(concat("the groups of ", s.name, " are made already"));
  }
  if (count < 2 || count * target.sub_group > target.group_items) {
    return infeasible(concat("a group of ", count, " sub-groups of ", target.sub_group,
                             " items, of ", target.group_items));
  }
  // No sub-group is without a row where others meet.
  if (trips(s, position) % count != 0) {
    return infeasible(concat(trips(s, position), " iterations of ", name, " make no ", count));
  }
  RETURN_IF_ERROR(split_loop(nest, stage, position, {&count, 1}, Tail::kCompose));
  const std::string outer = s.loops[position].name, inner = s.loops[position + 1].name;
  for (Stage& other : nest.stages) {
    const bool here = other.place == Place::kAt && other.host == stage && other.loop == inner;
    if (here) other.loop = outer;
  }
  s.loops[position + 1].kind = LoopKind::kItem;
  s.items = count * target.sub_group;
  s.sub_group = target.sub_group;
  return check_legal(nest, stage);
}

// A sub-group keeps its row to itself, so that all who read there read that.
bool reads_own_row(const Nest& nest, int stage, int axis) {
  const Stage& s = nest.stages[stage];
  std::vector<int> results = {s.tensor};
  for (int e : s.epilogue) results.push_back(nest.stages[e].tensor);
  for (int tensor : results) {
    for (int reader : readers(nest, tensor)) {
      const bool own = reader == stage || nest.stages[reader].place == Place::kEpilogue;
      if (!own && !reads_at_prefix(nest, reader, tensor, axis + 1)) return false;
    }
  }
  return true;
}

// Of a stage at a loop of a group's.
absl::Status deal_region(Nest& nest, int stage, int position) {
  Stage& s = nest.stages[stage];
  const Stage& root = nest.stages[root_of(nest, stage)];
  if (s.place != Place::kAt || s.copy_of >= 0 || root.sub_group == 0) {
    return infeasible(concat(s.name, " is of no group of sub-groups"));
  }
  const int64_t rows = region_range(nest, stage, position, region_extents(nest, stage));
  if (rows * root.sub_group != root.items) {
    return infeasible(concat(rows, " rows of ", s.name, " for ", root.items / root.sub_group,
                             " sub-groups"));
  }
  if (!reads_own_row(nest, stage, s.loops[position].parts[0].axis)) {
    return infeasible(concat("other rows of ", s.name, " are read than a sub-group's own"));
  }
  s.loops[position].kind = LoopKind::kItem;
  return check_legal(nest, stage);
}

absl::Status apply_sub_groups(Nest& nest, const Step& step) {
  RETURN_IF_ERROR(expect(step, {2, 2, 0, 1}));
  ASSIGN_OR_RETURN(const int stage, target_stage(nest, step));
  ASSIGN_OR_RETURN(const int position, dealt_rows(nest, stage, step));
  return step.numbers.empty() ? deal_region(nest, stage, position)
                              : deal_grid(nest, stage, position, step.numbers[0]);
}

std::vector<Decision> sub_groups_domain(const Nest& nest, const Step& step) {
  std::vector<Decision> domain;
  for (int64_t count = 2; count <= kMostSubGroups; count *= 2) {
    if (applies(nest, step, {count})) domain.push_back({count});
  }
  return domain;
}

}  // namespace

const StepKind& sub_groups() {
  static constexpr StepKind kind = {"sub_groups", 1, apply_sub_groups, sub_groups_domain, "simt"};
  return kind;
}

}  // namespace lw
