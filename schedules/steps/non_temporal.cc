// non_temporal(D; 1)
//   before  D[..]           after  D[..], non-temporal
// The final stores of an output bypass the caches: for outputs larger than they are.
#include "schedules/legality.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/expr.h"

namespace lw {
namespace {

// The stage whose loops end in the store of what the step names: an epilogue's host.
absl::StatusOr<int> storing_stage(const Nest& nest, const Step& step) {
  const int stage = step.names.empty() ? -1 : find_stage(nest, step.names[0]);
  if (stage < 0) return infeasible(concat("no stage ", step.names.empty() ? "" : step.names[0]));
  return nest.stages[stage].place == Place::kEpilogue ? nest.stages[stage].host : stage;
}

bool stores_output(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  const int last = s.epilogue.empty() ? stage : s.epilogue.back();
  return nest.program->tensors[nest.stages[last].tensor].role == Role::kOutput && s.copy_of < 0;
}

// Whether some vectors of a row are stored under a mask, which no store past the caches can be: lines
// that are written in both ways take several times as long.
bool masks_some(const Stage& stage) {
  if (stage.loops.empty() || stage.loops.back().kind != LoopKind::kVector) return false;
  const int lanes_along = stage.loops.back().parts[0].axis;
  for (int l = 0; l < static_cast<int>(stage.loops.size()); ++l) {
    const Loop& loop = stage.loops[l];
    for (int p = 0; p < static_cast<int>(loop.parts.size()); ++p) {
      const LoopPart& part = loop.parts[p];
      if (part.axis != lanes_along || loop.tail != Tail::kMask) continue;
      if (range_of(stage, l, p) % part.tile != 0) return true;
    }
  }
  return false;
}

absl::Status apply_non_temporal(Nest& nest, const Step& step) {
  RETURN_IF_ERROR(expect(step, {1, 1, 1, 1}));
  ASSIGN_OR_RETURN(const int stage, storing_stage(nest, step));
  if (step.numbers[0] != 0 && step.numbers[0] != 1) return infeasible("neither 0 nor 1");
  const bool on = step.numbers[0] == 1;
  if (on && !stores_output(nest, stage)) return infeasible(concat(step.names[0], " is no output"));
  nest.stages[stage].non_temporal = on;
  return absl::OkStatus();
}

std::vector<Decision> non_temporal_domain(const Nest& nest, const Step& step) {
  const absl::StatusOr<int> stage = storing_stage(nest, step);
  if (!stage.ok()) return {};
  if (!stores_output(nest, *stage) || masks_some(nest.stages[*stage])) return {{0}};
  return {{0}, {1}};
}

}  // namespace

const StepKind& non_temporal() {
  static constexpr StepKind kind = {"non_temporal", 1, apply_non_temporal, non_temporal_domain,
                                    kProcessors};
  return kind;
}

}  // namespace lw
