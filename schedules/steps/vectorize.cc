// vectorize(C, j.1)
//   before  j.1: 48         after  vector j.1: 48
// The points of the last loop become lanes, in chunks of the target's vectors. Of a reduction each
// lane keeps partial sums, combined at the end: every Reduce kind is associative and commutative.
#include "schedules/legality.h"
#include "src/base/check.h"
#include "src/base/message.h"

namespace lw {
namespace {

absl::Status apply_vectorize(Nest& nest, const Step& step) {
  RETURN_IF_ERROR(expect(step, {2, 2, 0, 0}));
  ASSIGN_OR_RETURN(const int stage, target_stage(nest, step));
  Stage& s = nest.stages[stage];
  ASSIGN_OR_RETURN(const int position, loop_position(s, step.names[1]));
  Loop& loop = s.loops[position];
  if (loop.kind != LoopKind::kSerial && loop.kind != LoopKind::kUnroll) {
    return infeasible(concat(loop.name, " is not serial"));
  }
  if (loop.parts.size() != 1 || loop.parts[0].tile != 1) {
    return infeasible(concat(loop.name, " does not run over single points of one axis"));
  }
  if (is_factored(s, loop.parts[0])) return infeasible(concat(loop.name, " is factored"));
  loop.kind = LoopKind::kVector;
  return check_legal(nest, stage);
}

}  // namespace

const StepKind& vectorize() {
  static constexpr StepKind kind = {"vectorize", 1, apply_vectorize, nullptr};
  return kind;
}

}  // namespace lw
