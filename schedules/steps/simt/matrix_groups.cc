// matrix_groups(C, i.0, j.0; 2, 4)
//   before  i.0: 8 of 64, mask       after  i.0.0: 4 of 128, mask
//             j.0: 16 of 32, mask             i.0.1: 2 of 64, mask
//                                               j.0.0: 4 of 128, mask
//                                                 j.0.1: 4 of 32, mask
// How many tiles of matrices are a group's, a sub-group each: the inner loops', which `items` then
// deals.
#include "schedules/domains.h"
#include "schedules/legality.h"
#include "schedules/steps/simt/item_registers.h"
#include "schedules/targets/matrix_shape.h"
#include "schedules/targets/simt/simt_target.h"
#include "src/base/check.h"
#include "src/base/message.h"

namespace lw {
namespace {

constexpr int64_t kMostOfGroup = 16;       // sub-groups: what is worth trying
constexpr int64_t kSpareWords = 16;        // of an item: its registers are known as well as that

absl::Status apply_matrix_groups(Nest& nest, const Step& step) {
  RETURN_IF_ERROR(expect(step, {3, 3, 2, 2}));
  ASSIGN_OR_RETURN(const int stage, target_stage(nest, step));
  const SimtTarget& target = simt(*nest.target);
  if (nest.stages[stage].matrix < 0) {
    return infeasible(concat(nest.stages[stage].name, " has no tile of matrices"));
  }
  const int64_t tiles = step.numbers[0] * step.numbers[1];
  if (step.numbers[0] < 1 || step.numbers[1] < 1 || tiles > kMostOfGroup ||
      tiles * target.sub_group > target.group_items) {
    return infeasible(concat("a group of ", step.numbers[0], " x ", step.numbers[1],
                             " sub-groups"));
  }
  const int64_t words = matrix_words(nest, stage) + kSpareWords;
  RETURN_IF_ERROR(check_group_registers(target, tiles * target.sub_group, 4 * words));
  for (const int side : {0, 1}) {
    ASSIGN_OR_RETURN(const int position,
                     loop_position(nest.stages[stage], step.names[side + 1]));
    const Loop& loop = nest.stages[stage].loops[position];
    if (loop.parts.size() != 1 || loop.parts[0].axis != nest.stages[stage].matrix_axes[side]) {
      return infeasible(concat(loop.name, " runs over no such tiles"));
    }
    RETURN_IF_ERROR(
        split_loop(nest, stage, position, {&step.numbers[side], 1}, Tail::kMask));
  }
  return check_legal(nest, stage);
}

std::vector<Decision> matrix_groups_domain(const Nest& nest, const Step& step) {
  std::vector<Decision> domain;
  const absl::StatusOr<int> stage = target_stage(nest, step);
  if (!stage.ok() || step.names.size() != 3) return domain;
  const Stage& s = nest.stages[*stage];
  const auto most = [&](int side) {
    const absl::StatusOr<int> position = loop_position(s, step.names[side + 1]);
    return position.ok() ? trips(s, *position) : 0;
  };
  const int64_t rows = most(0), columns = most(1);
  for (int64_t m = 1; m <= kMostOfGroup && (m == 1 || m / 2 < rows); m *= 2) {
    for (int64_t n = 1; m * n <= kMostOfGroup && (n == 1 || n / 2 < columns); n *= 2) {
      if (applies(nest, step, {m, n})) domain.push_back({m, n});
    }
  }
  return domain;
}

}  // namespace

const StepKind& matrix_groups() {
  static constexpr StepKind kind = {"matrix_groups", 1, apply_matrix_groups,
                                    matrix_groups_domain, "simt"};
  return kind;
}

}  // namespace lw
