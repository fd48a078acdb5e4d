// prefetch(C, B; 4)
//   before  C[..]           after  C[..], prefetches B by 4
// What B's reads will need that many iterations ahead is requested early; 0: nothing. The loop is the
// innermost that moves B's address. prefetch(C, B; 1, 1) looks along the second innermost such loop:
// where the innermost runs down a block of rows that are far apart, the next block's rows.
#include <algorithm>

#include "schedules/legality.h"
#include "src/base/check.h"
#include "src/base/message.h"

namespace lw {
namespace {

constexpr int64_t kMaxDistance = 1 << 20;

absl::Status apply_prefetch(Nest& nest, const Step& step) {
  RETURN_IF_ERROR(expect(step, {2, 2, 1, 2}));
  ASSIGN_OR_RETURN(const int stage, target_stage(nest, step));
  const int tensor = find_tensor(*nest.program, step.names[1]);
  const std::vector<int> reads = body_reads(nest, stage);
  if (std::find(reads.begin(), reads.end(), tensor) == reads.end()) {
    return infeasible(concat(step.names[0], " does not read ", step.names[1]));
  }
  const int64_t distance = step.numbers[0];
  if (distance < 0 || distance > kMaxDistance) return infeasible(concat("distance ", distance));
  const int64_t loop = step.numbers.size() > 1 ? step.numbers[1] : 0;
  if (loop < 0 || loop > 1) return infeasible(concat("loop ", loop, " is neither 0 nor 1"));
  std::vector<Stage::Prefetch>& list = nest.stages[stage].prefetches;
  std::erase_if(list, [&](const Stage::Prefetch& prefetch) { return prefetch.tensor == tensor; });
  if (distance > 0) list.push_back({tensor, distance, static_cast<int>(loop)});
  return absl::OkStatus();
}

// A few iterations ahead, the next block's, or the whole of the innermost loop: the next row while
// this one is computed.
std::vector<Decision> prefetch_domain(const Nest& nest, const Step& step) {
  std::vector<Decision> domain = {{0}, {1}, {2}, {4}, {8}, {16}, {1, 1}, {2, 1}};
  const absl::StatusOr<int> stage = target_stage(nest, step);
  if (!stage.ok()) return domain;
  const Stage& s = nest.stages[*stage];
  for (int l = tile_begin(s) - 1; l >= 0; --l) {
    if (s.loops[l].kind != LoopKind::kSerial) continue;
    const int64_t row = trips(s, l);
    if (row > 1 && row <= kMaxDistance &&
        std::find(domain.begin(), domain.end(), Decision{row}) == domain.end()) {
      domain.push_back({row});
    }
    break;
  }
  return domain;
}

}  // namespace

const StepKind& prefetch() {
  static constexpr StepKind kind = {"prefetch", 1, apply_prefetch, prefetch_domain,
                                    kProcessors};
  return kind;
}

}  // namespace lw
