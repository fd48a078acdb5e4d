// group_size(C; 64)
//   before  parallel i.0: 64        after  the same, of groups of 64 items
//             item i.1: 4
// How many items a group has where that is not what the first loop that they share has iterations:
// partial sums of a few results that all items compute, which few of them then combine. The grid is
// there; what stands at the loops of C and is shared says what is worth trying, as no more items
// than that has iterations find any.
#include <algorithm>

#include "schedules/domains.h"
#include "schedules/legality.h"
#include "schedules/steps/simt/item_registers.h"
#include "schedules/targets/simt/simt_target.h"
#include "src/base/check.h"
#include "src/base/message.h"

namespace lw {
namespace {

absl::StatusOr<int> sized_stage(const Nest& nest, const Step& step) {
  ASSIGN_OR_RETURN(const int stage, target_stage(nest, step));
  const Stage& s = nest.stages[stage];
  if (s.place != Place::kRoot || !has_parallel(s)) {
    return infeasible(concat(s.name, " has no grid"));
  }
  if (s.items > 0) return infeasible(concat("groups of ", s.name, " have ", s.items, " items"));
  return stage;
}

absl::Status apply_group_size(Nest& nest, const Step& step) {
  RETURN_IF_ERROR(expect(step, {1, 1, 1, 1}));
  ASSIGN_OR_RETURN(const int stage, sized_stage(nest, step));
  const int64_t items = step.numbers[0], most = simt(*nest.target).group_items;
  if (items < 2 || items > most) {
    return infeasible(concat("a group of ", items, " items, of ", most));
  }
  for (int s = 0; s < static_cast<int>(nest.stages.size()); ++s) {
    const bool here = nest.stages[s].place == Place::kRoot || nest.stages[s].place == Place::kAt;
    if (here && root_of(nest, s) == stage) {
      RETURN_IF_ERROR(check_item_registers(nest, s, items));
    }
  }
  nest.stages[stage].items = items;
  return absl::OkStatus();
}

// Of the loop that the stage's items share.
int64_t iterations_of_items(const Nest& nest, int stage) {
  for (const Loop& loop : nest.stages[stage].loops) {
    if (loop.kind == LoopKind::kItem) return shared_iterations(nest, stage, loop);
  }
  return 1;
}

std::vector<Decision> group_size_domain(const Nest& nest, const Step& step) {
  const absl::StatusOr<int> stage = sized_stage(nest, step);
  if (!stage.ok()) return {};
  const SimtTarget& target = simt(*nest.target);
  int64_t most = 1;
  for (int s = 0; s < static_cast<int>(nest.stages.size()); ++s) {
    const bool here = nest.stages[s].place == Place::kAt && root_of(nest, s) == *stage;
    if (here) most = std::max(most, iterations_of_items(nest, s));
  }
  std::vector<Decision> domain;
  const int64_t least = std::max(2, target.simd);
  for (int64_t items = least; items < most; items *= 2) {
    if (applies(nest, step, {items})) domain.push_back({items});
  }
  if (applies(nest, step, {most})) domain.push_back({most});
  return domain;
}

}  // namespace

const StepKind& group_size() {
  static constexpr StepKind kind = {"group_size", 1, apply_group_size, group_size_domain, "simt"};
  return kind;
}

}  // namespace lw
