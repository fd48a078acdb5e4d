// inline_producer(P)
//   before  P[i] = A[i] + 1      after  P[i: 64] inlined
//           C[i] = P[i] * 2             C[i] = (A[i] + 1) * 2
// A pure map is evaluated where it is read, once at each point.
#include "schedules/legality.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/expr.h"

namespace lw {
namespace {

absl::Status apply_inline(Nest& nest, const Step& step) {
  RETURN_IF_ERROR(expect(step, {1, 1, 0, 0}));
  ASSIGN_OR_RETURN(const int stage, target_stage(nest, step));
  Stage& s = nest.stages[stage];
  const Tensor& tensor = nest.program->tensors[s.tensor];
  if (s.copy_of >= 0) return infeasible(concat(s.name, " is a copy"));
  if (tensor.role == Role::kOutput) return infeasible(concat(s.name, " is an output"));
  if (tensor.reduce != Reduce::kNone && nest.checks(Legality::kInlineReduction)) {
    return infeasible(concat(s.name, " is a reduction"));
  }
  if (!s.epilogue.empty() || !s.copies.empty() || s.factored_axis >= 0) {
    return infeasible(concat(s.name, " hosts other stages"));
  }
  for (const Stage& other : nest.stages) {
    const bool mentions = other.host == stage || other.copy_of == s.tensor;
    if (mentions) return infeasible(concat(other.name, " depends on the place of ", s.name));
  }
  RETURN_IF_ERROR(inline_into_readers(nest, stage));
  s.place = Place::kInlined;
  s.host = -1;
  s.loop.clear();
  RETURN_IF_ERROR(check_places(nest));
  return check_blocks(nest);
}

}  // namespace

const StepKind& inline_producer() {
  static constexpr StepKind kind = {"inline_producer", 1, apply_inline, nullptr, nullptr};
  return kind;
}

}  // namespace lw
