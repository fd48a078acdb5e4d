// phase_taps(Y, y, r; 2)
//   before  y: 9            after  y.p: 2
//             r: 3                   y.q: 5        y = 2 y.q + y.p - 1
//                                      r.q: 2      r = 2 - 2 r.q + y.p
// A transposed convolution on an NPU: its sum is chosen by where((y + 1 - r) % 2 == 0, ..., 0). The
// loop over the result's points becomes one over phases, the remainders of y + 1, and one over the
// points of a phase; that over taps one over those that meet it, the last first. What is read at
// (y + 1 - r) / 2 is then read at y.q + r.q - 1: a convolution of stride 1. Phases differ in how
// many points and taps they have: y = -1 and r = 3, which there are not, are left out.
//
// With the number 1 there is one phase, whose taps run backwards: X[y + 1 - r], read backwards,
// then is not, and what it is multiplied by is.
#include <algorithm>

#include "schedules/legality.h"
#include "schedules/npu/phases.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/expr.h"
#include "src/expr/scalar.h"

namespace lw {
namespace {

constexpr int64_t kMostPhases = 64;        // each is code of its own

// The tensor's axis that is the one of a whole serial loop.
absl::StatusOr<int> whole_axis(const Stage& s, const std::string& name) {
  ASSIGN_OR_RETURN(const int position, loop_position(s, name));
  const Loop& loop = s.loops[position];
  const bool whole = is_plain(loop) && trips(s, position) == s.axes[loop.parts[0].axis].extent;
  if (!whole) return infeasible(concat(name, " is not a serial loop over a whole axis"));
  if (s.axis_value.empty()) return loop.parts[0].axis;
  for (size_t t = 0; t < s.axis_value.size(); ++t) {
    const ExprNode& value = *s.axis_value[t];
    if (value.op == ExprOp::kAxis && value.index == loop.parts[0].axis) return static_cast<int>(t);
  }
  return infeasible(concat(name, " runs over no axis of the tensor's"));
}

Expr sum(const Expr& a, const Expr& b) { return make_binary(ExprOp::kAdd, a, b); }
Expr number(int64_t value) { return make_int(Type::kI64, value); }
Expr times(const Expr& a, int64_t factor) {
  return make_binary(ExprOp::kMul, a, number(factor));
}

absl::Status apply_phase_taps(Nest& nest, const Step& step) {
  RETURN_IF_ERROR(expect(step, {3, 3, 1, 1}));
  ASSIGN_OR_RETURN(const int stage, target_stage(nest, step));
  Stage& s = nest.stages[stage];
  if (s.copy_of >= 0 || s.factored_axis >= 0 || s.place != Place::kRoot) {
    return infeasible(concat(s.name, " computes a box of points"));
  }
  for (const Stage& other : nest.stages) {
    if (other.place == Place::kAt && other.host == stage) {
      return infeasible(concat(other.name, " stands at loop ", other.loop));
    }
  }
  const std::string &name = step.names[1], &taps_name = step.names[2];
  ASSIGN_OR_RETURN(const int axis, whole_axis(s, name));
  ASSIGN_OR_RETURN(const int taps, whole_axis(s, taps_name));
  const int64_t n = step.numbers[0];
  if (n > kMostPhases) return infeasible(concat(n, " phases, at most ", kMostPhases));
  const std::vector<TapAxes> known = tap_axes(nest, stage);
  const auto found = std::find_if(known.begin(), known.end(), [&](const TapAxes& one) {
    return one.axis == axis && one.sum == taps && one.n == n;
  });
  if (found == known.end()) {
    return infeasible(concat("no where chooses points of ", name, " and ", taps_name,
                             " by a remainder by ", n));
  }
  const int own = s.loops[find_loop(s, name)].parts[0].axis,
            own_taps = s.loops[find_loop(s, taps_name)].parts[0].axis;
  const int64_t rest = floor_mod(found->offset, n);
  // The phases' axis is `own`, all behind it move by one.
  const auto moved = [&](int a) { return a + (a >= own); };
  std::vector<Expr> values;
  for (int a = 0; a < static_cast<int>(s.axes.size()); ++a) values.push_back(make_axis(moved(a)));
  if (s.axis_value.empty()) {
    s.axis_value = values;
  } else {
    for (Expr& value : s.axis_value) value = substitute(value, values);
  }
  const NestAxis points = s.axes[own], sums = s.axes[own_taps];
  const int64_t most = (sums.extent + n - 1) / n;
  const Expr phase = make_axis(own);
  s.axis_value[axis] = sum(sum(times(make_axis(moved(own)), n), phase), number(-rest));
  s.axis_value[taps] =
      sum(sum(times(make_axis(moved(own_taps)), -n), phase), number(n * (most - 1)));
  s.axes[own] = {concat(points.name, ".q"), (points.extent + rest + n - 1) / n, false};
  s.axes[own_taps] = {concat(sums.name, ".q"), most, true};
  s.axes.insert(s.axes.begin() + own, {concat(points.name, ".p"), n, false});
  for (Loop& loop : s.loops) {
    for (LoopPart& part : loop.parts) part.axis = moved(part.axis);
  }
  s.loops[find_loop(s, taps_name)].name += ".q";
  const int position = find_loop(s, name);
  s.loops[position].name += ".q";
  s.loops.insert(s.loops.begin() + position,
                 {concat(name, ".p"), {{own, 1}}, LoopKind::kSerial, Tail::kCompose});
  return check_legal(nest, stage);
}

}  // namespace

const StepKind& phase_taps() {
  static constexpr StepKind kind = {"phase_taps", 1, apply_phase_taps, nullptr, "npu"};
  return kind;
}

}  // namespace lw
