// parallel(C, i.0, j.0, k.0; 2)
//   before  i.0: 8 of 8     after  parallel i.0*j.0: 16 of 8 x 48
//             j.0: 2 of 48           k.0: 8
//               k.0: 8
// The first n of the loops named become one loop whose iterations the workers share; 0: none (then
// the stage need not exist: a copy that was not drawn has no loops to run). Without loop names the
// numbers are the position of the first loop and their count, parallel(C; 0, 2): for sketches in
// which the order of the loops is itself a decision.
#include "schedules/legality.h"
#include "src/base/check.h"
#include "src/base/message.h"

namespace lw {
namespace {

absl::Status check_serial(const Nest& nest, int stage, int position) {
  const Stage& s = nest.stages[stage];
  if (position >= static_cast<int>(s.loops.size()))
    return infeasible(concat(s.name, " has no more loops"));
  const Loop& loop = s.loops[position];
  if (loop.kind != LoopKind::kSerial) return infeasible(concat(loop.name, " is not serial"));
  if (is_reduction(s, loop) && nest.checks(Legality::kParallelReduction)) {
    return infeasible(concat("parallel loop ", loop.name, " would run a reduction"));
  }
  return absl::OkStatus();
}

// A grid is of the outermost loops of a stage at the root: a launch begins with it.
absl::Status check_outermost(const Nest& nest, int stage, int position) {
  if (nest.target->part.family()->units == nullptr) return absl::OkStatus();
  if (position == 0 && nest.stages[stage].place != Place::kAt) return absl::OkStatus();
  return infeasible("a grid is of the outermost loops");
}

absl::Status join_next(Nest& nest, int stage, int position) {
  RETURN_IF_ERROR(check_serial(nest, stage, position + 1));
  return merge_loops(nest, stage, position);
}

// Where the run of loops begins and how many it has, by either form of the step.
struct Run {
  int position;
  int64_t count;
};

absl::StatusOr<Run> run_of(const Stage& stage, const Step& step) {
  const int loops = static_cast<int>(stage.loops.size());
  if (step.names.size() == 1) {
    const int64_t first = step.numbers[0], count = step.numbers[1];
    if (first < 0 || count < 0 || first > loops || count > loops - first) {
      return infeasible(concat(stage.name, " has no loops ", first, " to ", first + count));
    }
    return Run{static_cast<int>(first), count};
  }
  if (step.numbers[0] < 0 || step.numbers[0] >= static_cast<int64_t>(step.names.size())) {
    return infeasible(concat(step.numbers[0], " of ", step.names.size() - 1, " loops"));
  }
  ASSIGN_OR_RETURN(const int position, loop_position(stage, step.names[1]));
  for (int64_t n = 1; n < step.numbers[0]; ++n) {
    if (find_loop(stage, step.names[n + 1]) != position + n) {
      return infeasible(concat("loop ", step.names[n + 1], " is not next to ", step.names[n]));
    }
  }
  return Run{position, step.numbers[0]};
}

absl::Status apply_parallel(Nest& nest, const Step& step) {
  const bool named = step.names.size() > 1;
  RETURN_IF_ERROR(expect(step, {1, 16, named ? 1 : 2, named ? 1 : 2}));
  if (step.numbers.back() == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int stage, target_stage(nest, step));
  ASSIGN_OR_RETURN(const Run run, run_of(nest.stages[stage], step));
  RETURN_IF_ERROR(check_serial(nest, stage, run.position));
  RETURN_IF_ERROR(check_outermost(nest, stage, run.position));
  for (int64_t n = 1; n < run.count; ++n) RETURN_IF_ERROR(join_next(nest, stage, run.position));
  nest.stages[stage].loops[run.position].kind = LoopKind::kParallel;
  return check_legal(nest, stage);
}

// Appends the legal runs of up to `most` loops from `position` on.
void add_runs(const Nest& nest, int stage, int position, size_t most, bool named,
              std::vector<Decision>& domain) {
  if (!check_serial(nest, stage, position).ok()) return;
  if (!check_outermost(nest, stage, position).ok()) return;
  Nest joined = nest;
  for (size_t n = 1; n <= most; ++n) {
    if (n > 1 && !join_next(joined, stage, position).ok()) return;
    LoopKind& kind = joined.stages[stage].loops[position].kind;
    kind = LoopKind::kParallel;
    if (check_legal(joined, stage).ok()) {
      const int64_t count = static_cast<int64_t>(n);
      domain.push_back(named ? Decision{count} : Decision{position, count});
    }
    kind = LoopKind::kSerial;
  }
}

std::vector<Decision> parallel_domain(const Nest& nest, const Step& step) {
  const bool named = step.names.size() > 1;
  std::vector<Decision> domain = {named ? Decision{0} : Decision{0, 0}};
  const absl::StatusOr<int> stage = target_stage(nest, step);
  if (nest.threads <= 1 || !stage.ok()) return domain;
  const Stage& s = nest.stages[*stage];
  if (named) {
    const int position = find_loop(s, step.names[1]);
    size_t most = 1;  // names that are adjacent
    while (most + 1 < step.names.size() &&
           find_loop(s, step.names[most + 1]) == position + static_cast<int>(most)) {
      ++most;
    }
    if (position >= 0) add_runs(nest, *stage, position, most, named, domain);
    return domain;
  }
  for (int position = 0; position < tile_begin(s); ++position) {
    add_runs(nest, *stage, position, s.loops.size() - position, named, domain);
  }
  return domain;
}

}  // namespace

const StepKind& parallel() {
  static constexpr StepKind kind = {"parallel", 1, apply_parallel, parallel_domain};
  return kind;
}

}  // namespace lw
