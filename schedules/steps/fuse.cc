// fuse(C, i, j)
//   before  i: 8            after  i*j: 32
//             j: 4
// Two adjacent loops become one. Where both cover whole axes, the axes become one too (extent 32,
// i = f / 4, j = f % 4), so that the loop can be split again; otherwise the loop has two parts.
#include "schedules/legality.h"
#include "src/base/check.h"
#include "src/base/message.h"

namespace lw {
namespace {

bool covers_axis(const Stage& stage, int position) {
  const Loop& loop = stage.loops[position];
  return loop.kind == LoopKind::kSerial && loop.parts.size() == 1 && loop.parts[0].tile == 1 &&
         trips(stage, position) == stage.axes[loop.parts[0].axis].extent;
}

bool only_loop_of_axis(const Stage& stage, int position) {
  const int axis = stage.loops[position].parts[0].axis;
  int count = 0;
  for (const Loop& loop : stage.loops) {
    for (const LoopPart& part : loop.parts) count += part.axis == axis;
  }
  return count == 1;
}

absl::Status apply_fuse(Nest& nest, const Step& step) {
  RETURN_IF_ERROR(expect(step, {3, 3, 0, 0}));
  ASSIGN_OR_RETURN(const int stage, target_stage(nest, step));
  Stage& s = nest.stages[stage];
  ASSIGN_OR_RETURN(const int position, loop_position(s, step.names[1]));
  ASSIGN_OR_RETURN(const int next, loop_position(s, step.names[2]));
  if (next != position + 1)
    return infeasible(concat(step.names[1], " and ", step.names[2], " are not adjacent"));
  const Loop &a = s.loops[position], &b = s.loops[next];
  if (is_reduction(s, a) != is_reduction(s, b)) return infeasible("a reduction and a spatial loop");
  if (a.kind != b.kind || (a.kind != LoopKind::kSerial && a.kind != LoopKind::kParallel)) {
    return infeasible(concat(a.name, " and ", b.name, " are not both serial"));
  }
  const int axis_a = a.parts[0].axis, axis_b = b.parts[0].axis;
  // Regions of hosted stages, of copies and of partial results are boxes over the tensor's axes,
  // those of hosted stages over the result's alone; dot products run along one of them.
  const bool boxes = s.dot_axis >= 0 || (s.place == Place::kAt && !is_reduction(s, a)) ||
                     s.copy_of >= 0 || s.factored_axis >= 0;
  const bool small =
      s.axes[axis_a].extent < (int64_t{1} << 31) && s.axes[axis_b].extent < (int64_t{1} << 31);
  const bool whole = !boxes && small && covers_axis(s, position) && covers_axis(s, next) &&
                     only_loop_of_axis(s, position) && only_loop_of_axis(s, next);
  if (!whole && is_reduction(s, a)) return infeasible("reduction loops that are not whole axes");
  RETURN_IF_ERROR(merge_loops(nest, stage, position));
  if (whole) {
    s.loops[position].parts.resize(1);
    fuse_axes(s, axis_a, axis_b);
  }
  return check_legal(nest, stage);
}

}  // namespace

const StepKind& fuse() {
  static constexpr StepKind kind = {"fuse", 1, apply_fuse, nullptr};
  return kind;
}

}  // namespace lw
