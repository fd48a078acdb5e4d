// pipeline(C; 2)
//   before  A.copy[..] at C k.0.0, in memory 0      after  A.copy[..] at C k.0.0, in memory 0 x2
// The copies that items share at serial loops of C have several slots, which take turns: while one
// is read what later iterations read is fetched into the others, and the items meet once an
// iteration. 1: one slot, they meet before it is read and before it is overwritten. Where a machine
// copies while its items go on, up to four slots' copies but one are on their way; elsewhere there
// are two.
#include "schedules/copy_bytes.h"
#include "schedules/domains.h"
#include "schedules/legality.h"
#include "schedules/targets/simt/simt_target.h"
#include "src/base/check.h"
#include "src/base/message.h"

namespace lw {
namespace {

// 1 to so many.
int64_t most_slots(const Nest& nest) { return simt(*nest.target).async_copies ? 4 : 2; }

bool takes_turns(const Nest& nest, int stage, const Stage& copy) {
  if (copy.place != Place::kAt || copy.host != stage || copy.memory < 0) return false;
  const Stage& s = nest.stages[stage];
  const int at = find_loop(s, copy.loop);
  return s.loops[at].kind == LoopKind::kSerial && s.loops[at].parts.size() == 1 &&
         trips(s, at) > 1;
}

absl::Status give_slots(Nest& nest, int stage, int64_t slots) {
  bool any = false;
  for (Stage& copy : nest.stages) {
    if (!takes_turns(nest, stage, copy)) continue;
    copy.slots = static_cast<int>(slots);
    any = true;
  }
  if (!any) return infeasible(concat("no loop of ", nest.stages[stage].name, " shares copies"));
  const int64_t most = simt(*nest.target).local_bytes, bytes = copies_bytes(nest, stage, true);
  if (bytes > most) {
    return infeasible(concat("a group needs ", bytes, " bytes of local memory, of ", most));
  }
  return check_legal(nest, stage);
}

absl::Status apply_pipeline(Nest& nest, const Step& step) {
  RETURN_IF_ERROR(expect(step, {1, 1, 1, 1}));
  const int64_t slots = step.numbers[0];
  if (slots < 1 || slots > most_slots(nest)) return infeasible(concat(slots, " slots"));
  if (slots == 1) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int stage, target_stage(nest, step));
  return give_slots(nest, stage, slots);
}

std::vector<Decision> pipeline_domain(const Nest& nest, const Step& step) {
  std::vector<Decision> domain = {{1}};
  const absl::StatusOr<int> stage = target_stage(nest, step);
  Nest next = nest;
  for (int64_t slots = 2; stage.ok() && slots <= most_slots(nest); ++slots) {
    if (!give_slots(next, *stage, slots).ok()) break;  // more take more
    domain.push_back({slots});
  }
  return domain;
}

}  // namespace

const StepKind& pipeline() {
  static constexpr StepKind kind = {"pipeline", 1, apply_pipeline, pipeline_domain, "simt"};
  return kind;
}

}  // namespace lw
