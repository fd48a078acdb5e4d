// unroll(C, j.1)
//   before  j.1: 4          after  unroll j.1: 4
// A suffix of unrolled loops is the register tile (nest.h).
#include "schedules/legality.h"
#include "src/base/check.h"
#include "src/base/message.h"

namespace lw {
namespace {

absl::Status apply_unroll(Nest& nest, const Step& step) {
  RETURN_IF_ERROR(expect(step, {2, 2, 0, 0}));
  ASSIGN_OR_RETURN(const int stage, target_stage(nest, step));
  ASSIGN_OR_RETURN(const int position, loop_position(nest.stages[stage], step.names[1]));
  Loop& loop = nest.stages[stage].loops[position];
  if (loop.kind != LoopKind::kSerial) return infeasible(concat(loop.name, " is not serial"));
  if (loop.parts.size() != 1) return infeasible(concat(loop.name, " is fused"));
  if (is_factored(nest.stages[stage], loop.parts[0]))
    return infeasible(concat(loop.name, " is factored"));
  loop.kind = LoopKind::kUnroll;
  return check_legal(nest, stage);
}

}  // namespace

const StepKind& unroll() {
  static constexpr StepKind kind = {"unroll", 1, apply_unroll, nullptr};
  return kind;
}

}  // namespace lw
