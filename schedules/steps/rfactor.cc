// rfactor(C, k.0)
//   before  C[i: 8, k: 100 sum]      after  C.rf[k.0: 4, i: 8, k: 100 sum], partial over k by 25
//             i: 8                            i: 8
//               k.0: 4 of 25                    k.0: 4 of 25    (counts as spatial)
//                 k.1: 25                         k.1: 25
//                                           C[i: 8, k.0: 4 sum]
//                                             i: 8
//                                               k.0: 4
// The partial sums of the loop's iterations are stored side by side and added by a stage of their
// own, so the loop may run in parallel. Epilogues stay with C; loops, copies and what stands at the
// loops go with C.rf. Where C stands at a loop of another, both do.
#include "schedules/legality.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/expr.h"

namespace lw {
namespace {

// `body` with an axis before all others.
Expr shifted_axes(const Expr& body, size_t axes) {
  std::vector<Expr> shifted;
  for (size_t a = 0; a < axes; ++a) shifted.push_back(make_axis(static_cast<int>(a) + 1));
  return substitute(body, shifted);
}

Tensor partials_of(const Tensor& whole, const std::string& loop, int64_t trips) {
  Tensor partial = whole;
  partial.name = concat(whole.name, ".rf");
  partial.role = Role::kTemp;
  partial.shape.insert(partial.shape.begin(), trips);
  partial.axes.insert(partial.axes.begin(), Axis{loop, trips});
  partial.body = shifted_axes(whole.body, whole.axes.size() + whole.reduce_axes.size());
  return partial;
}

absl::Status check_factorable(const Nest& nest, int stage, int position) {
  const Stage& s = nest.stages[stage];
  const Loop& loop = s.loops[position];
  const Reduce reduce = nest.program->tensors[s.tensor].reduce;
  if (s.copy_of >= 0 || (s.place != Place::kRoot && s.place != Place::kAt))
    return infeasible(concat(s.name, " is neither at the root nor at a loop"));
  if (s.factored_axis >= 0) return infeasible(concat(s.name, " is factored already"));
  if (s.along >= 0) return infeasible(concat(s.name, " is dealt along a loop"));
  if (!s.axis_value.empty()) return infeasible(concat(s.name, " has fused axes"));
  if (s.dot_axis >= 0) return infeasible(concat(s.name, " computes dot products"));
  if (loop.parts.size() != 1 || loop.kind != LoopKind::kSerial) {
    return infeasible(concat(loop.name, " is not a plain serial loop"));
  }
  if (reduce == Reduce::kNone) return infeasible(concat(s.name, " is no reduction"));
  if (!is_reduction(s, loop) && nest.checks(Legality::kRfactorReduction)) {
    return infeasible(concat(loop.name, " is no reduction loop"));
  }
  for (int l = 0; l < static_cast<int>(s.loops.size()); ++l) {
    for (const LoopPart& part : s.loops[l].parts) {
      if (l != position && part == loop.parts[0])
        return infeasible(concat(loop.name, " has a twin"));
    }
  }
  if (find_tensor(*nest.program, concat(s.name, ".rf")) >= 0)
    return infeasible("partial results exist");
  return absl::OkStatus();
}

absl::Status apply_rfactor(Nest& nest, const Step& step) {
  RETURN_IF_ERROR(expect(step, {2, 2, 0, 0}));
  ASSIGN_OR_RETURN(const int stage, target_stage(nest, step));
  ASSIGN_OR_RETURN(const int position, loop_position(nest.stages[stage], step.names[1]));
  RETURN_IF_ERROR(check_factorable(nest, stage, position));
  const int tensor = nest.stages[stage].tensor;
  const LoopPart part = nest.stages[stage].loops[position].parts[0];
  const int64_t parts = trips(nest.stages[stage], position);
  insert_partials(nest, tensor, partials_of(nest.program->tensors[tensor], step.names[1], parts));
  nest.stages[stage].tensor = tensor;      // its loops now compute the partial results
  insert_combining_stage(nest, stage);
  Stage& partial = nest.stages[stage];
  partial.name = nest.program->tensors[tensor].name;
  partial.body = make_body(shifted_axes(partial.body->value, partial.axes.size()));
  partial.axes.insert(partial.axes.begin(), NestAxis{step.names[1], parts, false});
  for (Loop& loop : partial.loops) {
    for (LoopPart& other : loop.parts) ++other.axis;
  }
  partial.factored_axis = part.axis + 1;
  partial.factored_tile = part.tile;
  return check_legal(nest, stage);
}

}  // namespace

const StepKind& rfactor() {
  static constexpr StepKind kind = {"rfactor", 1, apply_rfactor, nullptr};
  return kind;
}

}  // namespace lw
