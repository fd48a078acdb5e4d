// slide(T; 1)
//   before  T[..]           after  T[..], slides vectors
// Vectors of the register tile that overlap, as those at the taps of a window along the lanes do,
// are made in registers from others that do not: a shuffle each, where a load would mostly cross
// cache lines.
#include "schedules/legality.h"
#include "schedules/window.h"
#include "src/base/check.h"
#include "src/base/message.h"

namespace lw {
namespace {

absl::Status apply_slide(Nest& nest, const Step& step) {
  RETURN_IF_ERROR(expect(step, {1, 1, 1, 1}));
  ASSIGN_OR_RETURN(const int stage, target_stage(nest, step));
  if (step.numbers[0] != 0 && step.numbers[0] != 1) return infeasible("neither 0 nor 1");
  const bool on = step.numbers[0] == 1;
  if (on && !overlaps(nest, stage))
    return infeasible(concat("no vectors of ", step.names[0], " overlap"));
  nest.stages[stage].slide = on;
  return absl::OkStatus();
}

std::vector<Decision> slide_domain(const Nest& nest, const Step& step) {
  const absl::StatusOr<int> stage = target_stage(nest, step);
  if (!stage.ok()) return {};
  if (!overlaps(nest, *stage)) return {{0}};
  return {{0}, {1}};
}

}  // namespace

const StepKind& slide() {
  static constexpr StepKind kind = {"slide", 1, apply_slide, slide_domain,
                                    "cpu"};
  return kind;
}

}  // namespace lw
