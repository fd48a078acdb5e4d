// pipeline(C; 2)
//   before  A.copy[..] at C k.0.0, in memory 0      after  A.copy[..] at C k.0.0, in memory 0 x2
// The copies that items share at serial loops of C have several slots, which take turns: while one
// is read the next iteration's is fetched into another, and the items meet once an iteration. 1:
// one slot, they meet before it is read and before it is overwritten.
#include "schedules/access.h"
#include "schedules/legality.h"
#include "schedules/targets/simt/simt_target.h"
#include "src/base/message.h"
#include "src/expr/expr.h"

namespace lw {
namespace {

constexpr int64_t kSlotCounts = 2;         // 1 to so many
constexpr int64_t kSlotAlignment = 64;     // of buffers in local memory

bool takes_turns(const Nest& nest, int stage, const Stage& copy) {
  if (copy.place != Place::kAt || copy.host != stage || copy.memory < 0) return false;
  const Stage& s = nest.stages[stage];
  const int at = find_loop(s, copy.loop);
  return s.loops[at].kind == LoopKind::kSerial && s.loops[at].parts.size() == 1 &&
         trips(s, at) > 1;
}

// About how large the box is that all items read while the loops up to the copy's stand still: a
// copy that is larger after all is found when it is lowered.
int64_t bytes_of_slot(const Nest& nest, int stage, const Stage& copy) {
  const Stage& s = nest.stages[stage];
  std::vector<int64_t> extents = inner_extents(s, find_loop(s, copy.loop) + 1);
  for (int l = 0; l < static_cast<int>(s.loops.size()); ++l) {
    if (s.loops[l].kind != LoopKind::kItem) continue;
    const std::vector<int64_t> all = inner_extents(s, l);
    for (const LoopPart& part : s.loops[l].parts) extents[part.axis] = all[part.axis];
  }
  std::vector<Interval> ranges;
  for (const int64_t extent : extents) ranges.push_back({0, extent - 1});
  const Expr body = body_over_loops(nest, stage);
  const Tensor& tensor = nest.program->tensors[copy.copy_of];
  int64_t bytes = copy.wide ? size_of(Type::kF32) : size_of(tensor.type);
  for (const int64_t n : box_of(reads_in(body), copy.copy_of, tensor.shape, ranges)) bytes *= n;
  return (bytes + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
}

absl::Status apply_pipeline(Nest& nest, const Step& step) {
  RETURN_IF_ERROR(expect(step, {1, 1, 1, 1}));
  const int64_t slots = step.numbers[0];
  if (slots < 1 || slots > kSlotCounts) return infeasible(concat(slots, " slots"));
  if (slots == 1) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int stage, target_stage(nest, step));
  int64_t bytes = 0;
  bool any = false;
  for (Stage& copy : nest.stages) {
    if (copy.place != Place::kAt || copy.host != stage || copy.memory < 0) continue;
    const bool turns = takes_turns(nest, stage, copy);
    bytes += bytes_of_slot(nest, stage, copy) * (turns ? slots : 1);
    if (turns) copy.slots = static_cast<int>(slots);
    any = any || turns;
  }
  if (!any) return infeasible(concat("no loop of ", nest.stages[stage].name, " shares copies"));
  const int64_t most = simt(*nest.target).local_bytes;
  if (bytes > most) {
    return infeasible(concat("a group needs ", bytes, " bytes of local memory, of ", most));
  }
  return check_legal(nest, stage);
}

std::vector<Decision> pipeline_domain(const Nest& nest, const Step& step) {
  std::vector<Decision> domain = {{1}};
  for (int64_t slots = 2; slots <= kSlotCounts; ++slots) {
    Nest next = nest;
    Step drawn = step;
    drawn.numbers = {slots};
    if (apply_pipeline(next, drawn).ok()) domain.push_back({slots});
  }
  return domain;
}

}  // namespace

const StepKind& pipeline() {
  static constexpr StepKind kind = {"pipeline", 1, apply_pipeline, pipeline_domain, "simt"};
  return kind;
}

}  // namespace lw
