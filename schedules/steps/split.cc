// split(C, i; 5, 6, 0)
//   before  i: 100
//   after   i.0: 4 of 30        (the partial last tile as the tail policy says: 0 compose)
//             i.1: 5 of 6
//               i.2: 6
// The numbers are the trips of all loops but the outermost, then the Tail of the new loops. The
// tail that the loop had stays with the innermost, whose tile it concerns.
#include "schedules/domains.h"
#include "schedules/legality.h"
#include "src/base/check.h"

namespace lw {
namespace {

constexpr size_t kMostSplits = 512;

absl::Status apply_split(Nest& nest, const Step& step) {
  RETURN_IF_ERROR(expect(step, {2, 2, 2, 8}));
  ASSIGN_OR_RETURN(const int stage, target_stage(nest, step));
  ASSIGN_OR_RETURN(const int position, loop_position(nest.stages[stage], step.names[1]));
  ASSIGN_OR_RETURN(const Tail tail, tail_of(step.numbers.back()));
  const absl::Span<const int64_t> sizes(step.numbers.data(), step.numbers.size() - 1);
  RETURN_IF_ERROR(split_loop(nest, stage, position, sizes, tail));
  return check_legal(nest, stage);
}

// Extends `prefix`, the first trips of the step, to all decisions for a loop over `range` points.
void extend(const Nest& nest, int stage, int position, int64_t range, size_t count, int64_t left,
            int64_t fixed_tail, Decision& prefix, std::vector<Decision>& domain) {
  if (prefix.size() == count) {
    int64_t tile = nest.stages[stage].loops[position].parts[0].tile;
    for (int64_t size : prefix) tile *= size;
    for (int64_t tail : tails(nest, stage, position, range, tile, fixed_tail)) {
      domain.push_back(prefix);
      domain.back().push_back(tail);
    }
    return;
  }
  for (int64_t size : ladder(left)) {
    prefix.push_back(size);
    extend(nest, stage, position, range, count, left / size, fixed_tail, prefix, domain);
    prefix.pop_back();
  }
}

// The number of factors is the step's; a tail >= 0 there is kept.
std::vector<Decision> split_domain(const Nest& nest, const Step& step) {
  const absl::StatusOr<int> stage = target_stage(nest, step);
  if (!stage.ok() || step.names.size() != 2) return {};
  const Stage& s = nest.stages[*stage];
  const int position = find_loop(s, step.names[1]);
  if (position < 0 || s.loops[position].parts.size() != 1) return {};
  const Loop& loop = s.loops[position];
  if (loop.kind != LoopKind::kSerial || is_factored(s, loop.parts[0])) return {};
  const size_t count = step.numbers.size() < 2 ? 1 : step.numbers.size() - 1;
  std::vector<Decision> domain;
  Decision prefix;
  const int64_t tile = loop.parts[0].tile;
  const int64_t range = region_range(nest, *stage, position, region_extents(nest, *stage));
  extend(nest, *stage, position, range, count, (range + tile - 1) / tile, number_or(step, count, -1),
         prefix, domain);
  thin(domain, kMostSplits);
  return domain;
}

}  // namespace

const StepKind& split() {
  static constexpr StepKind kind = {"split", 1, apply_split, split_domain};
  return kind;
}

}  // namespace lw
