// cluster(C; 2, 0)
//   before  parallel i.0*j.0: 512 of 128 x 256    after  parallel j.0*i.0: 512 of 256 x 128
// Groups run at once, two that are neighbours along the first of the axes over which they run; so this
// one runs fastest. Copies of boxes that do not move along it are made once for both. 1: each group
// runs by itself.
#include <algorithm>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "schedules/access.h"
#include "schedules/domains.h"
#include "schedules/legality.h"
#include "schedules/targets/simt/simt_target.h"
#include "src/base/check.h"
#include "src/base/message.h"

namespace lw {
namespace {

bool shares_boxes(const Nest& nest, int stage, int axis) {
  return std::any_of(nest.stages.begin(), nest.stages.end(), [&](const Stage& copy) {
    return copy.host == stage && alike_along(nest, copy, axis);
  });
}

// The fused loop's name is its parts' names.
void run_fastest(Nest& nest, int stage, int position, int64_t part) {
  Loop& loop = nest.stages[stage].loops[position];
  std::vector<std::string> names = absl::StrSplit(loop.name, '*');
  const std::string before = loop.name;
  const auto last = [part](auto& list) {
    std::rotate(list.begin() + part, list.begin() + part + 1, list.end());
  };
  last(loop.parts);
  if (names.size() == loop.parts.size()) last(names);
  loop.name = absl::StrJoin(names, "*");
  for (Stage& other : nest.stages) {
    if (other.host == stage && other.loop == before) other.loop = loop.name;
  }
}

absl::Status apply_cluster(Nest& nest, const Step& step) {
  RETURN_IF_ERROR(expect(step, {1, 1, 2, 2}));
  const int64_t groups = step.numbers[0], part = step.numbers[1];
  const int64_t most = simt(*nest.target).cluster_groups;
  if (groups < 1 || groups > most) {
    return infeasible(concat("no cluster has ", groups, " groups, of ", most));
  }
  if (groups == 1) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int stage, target_stage(nest, step));
  Stage& s = nest.stages[stage];
  const auto grid = std::find_if(s.loops.begin(), s.loops.end(), [](const Loop& loop) {
    return loop.kind == LoopKind::kParallel;
  });
  if (s.place != Place::kRoot || s.cluster > 1 || grid == s.loops.end()) {
    return infeasible(concat(s.name, " has no groups, or they have clusters already"));
  }
  if (part < 0 || part >= static_cast<int64_t>(grid->parts.size())) {
    return infeasible(concat(grid->name, " runs over ", uint64_t{grid->parts.size()}, " axes"));
  }
  const LoopPart along = grid->parts[part];
  const int64_t extent = s.axes[along.axis].extent;
  if (extent % (along.tile * groups) != 0) {
    return infeasible(concat(extent, " points make no clusters of ", groups, " groups of ",
                             along.tile));
  }
  if (!shares_boxes(nest, stage, along.axis)) {
    return infeasible(concat("groups along ", s.axes[along.axis].name, " share no copies of boxes"));
  }
  run_fastest(nest, stage, static_cast<int>(grid - s.loops.begin()), part);
  s.cluster = groups;
  return check_legal(nest, stage);
}

std::vector<Decision> cluster_domain(const Nest& nest, const Step& step) {
  std::vector<Decision> domain = {{1, 0}};
  const absl::StatusOr<int> stage = target_stage(nest, step);
  if (!stage.ok() || nest.stages[*stage].loops.empty()) return domain;
  const int64_t parts = static_cast<int64_t>(nest.stages[*stage].loops[0].parts.size());
  for (int64_t groups = 2; groups <= simt(*nest.target).cluster_groups; groups *= 2) {
    for (int64_t part = 0; part < parts; ++part) {
      if (applies(nest, step, {groups, part})) domain.push_back({groups, part});
    }
  }
  return domain;
}

}  // namespace

const StepKind& cluster() {
  static constexpr StepKind kind = {"cluster", 1, apply_cluster, cluster_domain, "simt"};
  return kind;
}

}  // namespace lw
