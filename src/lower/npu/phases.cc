#include "src/lower/npu/phases.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/base/message.h"

namespace lw::lowering {
namespace {

int first_loop(const Stage& stage, size_t axis) {
  for (int l = 0; l < static_cast<int>(stage.loops.size()); ++l) {
    for (const LoopPart& part : stage.loops[l].parts) {
      if (part.axis == static_cast<int>(axis)) return l;
    }
  }
  return -1;
}

bool runs_over_points(const Stage& stage, int position) {
  const Loop& loop = stage.loops[position];
  return loop.parts.size() == 1 && loop.parts[0].tile == 1 &&
         trips(stage, position) == stage.axes[loop.parts[0].axis].extent;
}

}  // namespace

absl::StatusOr<Phases> find_phases(const Stage& stage,
                                   const std::vector<NpuProduct::Limit>& limits, int held) {
  Phases phases;
  phases.is_phase.resize(stage.loops.size());
  for (const NpuProduct::Limit& limit : limits) {
    std::vector<size_t> movers;
    for (size_t a = 0; a < limit.steps.size(); ++a) {
      if (limit.steps[a] != 0) movers.push_back(a);
    }
    const size_t last =
        *std::max_element(movers.begin(), movers.end(), [&](size_t x, size_t y) {
          return first_loop(stage, x) < first_loop(stage, y);
        });
    for (const size_t a : movers) {
      const int position = first_loop(stage, a);
      if (a == last) continue;
      if (position >= held || !runs_over_points(stage, position)) {
        return infeasible(concat("loop ", stage.loops[position].name, " of ", stage.name,
                                 " does not run over phases outside all else"));
      }
      phases.is_phase[static_cast<size_t>(position)] = true;
    }
    phases.cut.push_back(last);
  }
  return phases;
}

bool has_points(const Phases& phases, const std::vector<NpuProduct::Limit>& limits,
                BoxRanges& ranges) {
  for (size_t l = 0; l < limits.size(); ++l) {
    const NpuProduct::Limit& limit = limits[l];
    int64_t begin = limit.begin;
    bool known = true;
    for (size_t a = 0; a < ranges.size(); ++a) {
      if (limit.steps[a] == 0 || a == phases.cut[l]) continue;
      known = known && ranges[a].count == 1 && ranges[a].begin.is_constant();
      begin += limit.steps[a] * ranges[a].begin.constant;
    }
    BoxRange& range = ranges[phases.cut[l]];
    if (!known || !range.begin.is_constant()) continue;
    const Positions left = inside({range.begin.constant, range.count}, begin,
                                  limit.steps[phases.cut[l]], limit.size);
    range = {affine(left.first), left.count, left.first, left.first};
    if (range.count == 0 && !limit.sum) return false;
  }
  return true;
}

absl::StatusOr<std::vector<int64_t>> source_strides(const VectorValue& operand,
                                                    const BoxRanges& ranges) {
  std::vector<int64_t> strides = operand.source_strides;
  for (size_t d = 0; d < strides.size(); ++d) {
    const std::vector<int64_t>& dim = operand.tile.steps[d];
    const bool alone = std::count(dim.begin(), dim.end(), 0) + 1 == std::ssize(dim);
    for (size_t a = 0; a < ranges.size(); ++a) {
      if (ranges[a].apart == 1 || dim[a] == 0) continue;
      if (dim[a] != 1 || !alone || !operand.borders.empty()) {
        return infeasible("what finishes a phase reads more than its points");
      }
      strides[d] *= ranges[a].apart;
    }
  }
  return strides;
}

}  // namespace lw::lowering
