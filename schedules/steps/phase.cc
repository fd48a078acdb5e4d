// phase(Y, x; 2)
//   before  x: 8            after  x.p: 2
//                                    x.q: 4        points x = 2 q + p
// A loop over a whole axis becomes one over the remainders of its points and one over their
// quotients, each an axis of its own: the points x.q of one phase are 2 apart. What depends on a
// remainder, such as which taps of a transposed convolution meet a pixel, is then the same for all
// of them. The number divides the extent.
#include "schedules/legality.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/expr.h"

namespace lw {
namespace {

int loops_over(const Stage& stage, int axis) {
  int count = 0;
  for (const Loop& loop : stage.loops) {
    for (const LoopPart& part : loop.parts) count += part.axis == axis;
  }
  return count;
}

// Axis `a` becomes a (remainders) and a + 1 (quotients).
void split_axis(Stage& stage, int a, int64_t phases) {
  const auto renumbered = [&](int axis) { return axis + (axis > a); };
  std::vector<Expr> values;
  for (int axis = 0; axis < static_cast<int>(stage.axes.size()); ++axis) {
    values.push_back(make_axis(renumbered(axis)));
  }
  values[a] = make_binary(
      ExprOp::kAdd,
      make_binary(ExprOp::kMul, make_axis(a + 1), make_int(Type::kI64, phases)), make_axis(a));
  if (stage.axis_value.empty()) {
    stage.axis_value = values;
  } else {
    for (Expr& value : stage.axis_value) value = substitute(value, values);
  }
  const NestAxis whole = stage.axes[a];
  stage.axes[a] = {concat(whole.name, ".p"), phases, whole.reduction};
  stage.axes.insert(stage.axes.begin() + a + 1,
                    {concat(whole.name, ".q"), whole.extent / phases, whole.reduction});
  for (Loop& loop : stage.loops) {
    for (LoopPart& part : loop.parts) part.axis = renumbered(part.axis);
  }
}

absl::Status apply_phase(Nest& nest, const Step& step) {
  RETURN_IF_ERROR(expect(step, {2, 2, 1, 1}));
  ASSIGN_OR_RETURN(const int stage, target_stage(nest, step));
  Stage& s = nest.stages[stage];
  ASSIGN_OR_RETURN(const int position, loop_position(s, step.names[1]));
  const Loop loop = s.loops[position];
  const int64_t phases = step.numbers[0];
  // Regions of hosted stages, of copies and of partial results are boxes over the tensor's axes.
  if (s.place == Place::kAt || s.copy_of >= 0 || s.factored_axis >= 0)
    return infeasible(concat(s.name, " computes a box of points"));
  const int axis = loop.parts[0].axis;
  if (s.dot_axis >= 0) return infeasible(concat(s.name, " computes dot products"));
  if (loop.kind != LoopKind::kSerial || loop.parts.size() != 1 || loops_over(s, axis) != 1)
    return infeasible(concat(loop.name, " is not a serial loop over a whole axis"));
  if (phases < 2 || s.axes[axis].extent % phases != 0 || s.axes[axis].extent < 2 * phases)
    return infeasible(concat(phases, " phases do not divide ", s.axes[axis].extent, " points"));
  split_axis(s, axis, phases);
  const std::string remainders = concat(loop.name, ".p"), quotients = concat(loop.name, ".q");
  if (find_loop(s, remainders) >= 0 || find_loop(s, quotients) >= 0)
    return infeasible(concat(loop.name, " has phases already"));
  s.loops[position].name = remainders;
  s.loops.insert(s.loops.begin() + position + 1, {quotients, {{axis + 1, 1}}, loop.kind, loop.tail});
  for (Stage& other : nest.stages) {
    if (other.place == Place::kAt && other.host == stage && other.loop == loop.name)
      other.loop = quotients;
  }
  return check_legal(nest, stage);
}

}  // namespace

const StepKind& phase() {
  static constexpr StepKind kind = {"phase", 1, apply_phase, nullptr, nullptr};
  return kind;
}

}  // namespace lw
