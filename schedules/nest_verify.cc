// Structure that every step must leave behind (see nest.h). A failure is our bug.
#include <algorithm>
#include <set>

#include "schedules/nest.h"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/expr.h"

namespace lw {
namespace {

absl::Status broken(const Stage& stage, std::string_view what) {
  return absl::InternalError(concat("stage ", stage.name, ": ", what));
}

absl::Status verify_chains(const Nest& nest, const Stage& stage) {
  std::vector<std::vector<int64_t>> tiles(stage.axes.size());
  for (const Loop& loop : stage.loops) {
    if (loop.parts.empty()) return broken(stage, concat("loop ", loop.name, " has no part"));
    for (const LoopPart& part : loop.parts) {
      if (part.axis < 0 || part.axis >= static_cast<int>(tiles.size()) || part.tile < 1) {
        return broken(stage, concat("loop ", loop.name, " runs over no axis"));
      }
      tiles[part.axis].push_back(part.tile);
    }
  }
  if (!nest.checks(Legality::kChainOrder)) return absl::OkStatus();
  // Partial results: axis 0 is the number of the factored loop's iteration, no loop runs over it.
  for (size_t a = stage.factored_axis >= 0 ? 1 : 0; a < tiles.size(); ++a) {
    const NestAxis& axis = stage.axes[a];
    if (tiles[a].empty() || tiles[a].back() != 1)
      return broken(stage, concat("axis ", axis.name, " is not covered"));
    int64_t range = axis.extent;
    for (size_t n = 0; n < tiles[a].size(); ++n) {
      const int64_t inner = n + 1 < tiles[a].size() ? tiles[a][n + 1] : 1;
      if (tiles[a][n] >= range + inner)
        return broken(stage, concat("a tile of ", axis.name, " exceeds its range"));
      range = std::min(range, tiles[a][n]);
    }
  }
  return absl::OkStatus();
}

absl::Status verify_loops(const Nest& nest, const Stage& stage) {
  std::set<std::string_view> names;
  int vectors = 0, parallels = 0;
  for (size_t l = 0; l < stage.loops.size(); ++l) {
    const Loop& loop = stage.loops[l];
    if (!names.insert(loop.name).second) return broken(stage, concat("two loops ", loop.name));
    parallels += loop.kind == LoopKind::kParallel;
    if (loop.kind != LoopKind::kVector) continue;
    ++vectors;
    const bool innermost = l + 1 == stage.loops.size();
    if (!innermost && nest.checks(Legality::kVectorInnermost)) {
      return broken(stage, concat("vector loop ", loop.name, " is not the last"));
    }
    if (loop.parts.size() != 1 || loop.parts[0].tile != 1) {
      return broken(stage, concat("vector loop ", loop.name, " is not over single points"));
    }
  }
  if (vectors > 1 && nest.checks(Legality::kVectorInnermost))
    return broken(stage, "two vector loops");
  if (parallels > 1) return broken(stage, "two parallel loops");
  return verify_chains(nest, stage);
}

absl::Status verify_place(const Nest& nest, int index) {
  const Stage& stage = nest.stages[index];
  const int count = static_cast<int>(nest.stages.size());
  const bool reduces = nest.program->tensors[stage.tensor].reduce != Reduce::kNone;
  const bool inlined = stage.place == Place::kInlined && reduces && stage.host >= 0;
  const bool hosted = stage.place == Place::kAt || stage.place == Place::kEpilogue || inlined;
  if (hosted != (stage.host >= 0) || stage.host >= count)
    return broken(stage, "host does not fit the place");
  if ((stage.place == Place::kAt) != !stage.loop.empty())
    return broken(stage, "loop does not fit the place");
  if (stage.place == Place::kPrepack) {
    const int tensor = stage.copy_of >= 0 ? stage.copy_of : stage.tensor;
    if (!nest.program->tensors[tensor].is_const) return broken(stage, "prepacks what is not const");
  }
  if (!hosted) return absl::OkStatus();
  const Stage& host = nest.stages[stage.host];
  if (host.place == Place::kInlined || (host.place == Place::kEpilogue && !inlined))
    return broken(stage, "host runs no loops");
  if (host.place == Place::kPrepack) return broken(stage, "host is prepacked");
  int steps = 0;
  for (int s = index; s >= 0 && steps <= count; s = nest.stages[s].host) ++steps;
  if (steps > count) return broken(stage, "hosts form a cycle");
  if (stage.place == Place::kEpilogue) {
    const auto& list = host.epilogue;
    if (std::count(list.begin(), list.end(), index) != 1)
      return broken(stage, "host does not list it");
    return absl::OkStatus();
  }
  if (inlined) return absl::OkStatus();
  const int position = find_loop(host, stage.loop);
  if (position < 0 || position >= tile_begin(host))
    return broken(stage, "stands at no loop outside the tile");
  if (stage.along >= 0 && (stage.copy_of >= 0 || stage.along >= static_cast<int>(stage.axes.size()) ||
                           stage.axes[stage.along].reduction || host.place != Place::kRoot)) {
    return broken(stage, "is dealt along no axis of its own");
  }
  return absl::OkStatus();
}

// Whether `stage` runs inside the loop at which the copy stands.
bool encloses(const Nest& nest, const Stage& copy, int stage) {
  if (copy.host < 0 || copy.host == stage) return true;
  while (nest.stages[stage].place == Place::kAt && nest.stages[stage].host != copy.host)
    stage = nest.stages[stage].host;
  const Stage& inner = nest.stages[stage];
  const Stage& host = nest.stages[copy.host];
  return inner.host == copy.host && find_loop(host, inner.loop) >= find_loop(host, copy.loop);
}

absl::Status verify_lists(const Nest& nest, int index) {
  const Stage& stage = nest.stages[index];
  const int count = static_cast<int>(nest.stages.size());
  for (int e : stage.epilogue) {
    const bool fits = e >= 0 && e < count && nest.stages[e].place == Place::kEpilogue &&
                      nest.stages[e].host == index;
    if (!fits) return broken(stage, "epilogue list is wrong");
  }
  for (const Stage::Copy& copy : stage.copies) {
    const bool fits = copy.stage >= 0 && copy.stage < count &&
                      nest.stages[copy.stage].copy_of == copy.tensor &&
                      encloses(nest, nest.stages[copy.stage], index);
    if (!fits) return broken(stage, "copy list is wrong");
  }
  return absl::OkStatus();
}

absl::Status verify_axes(const Nest& nest, const Stage& stage) {
  const Tensor& tensor = nest.program->tensors[stage.tensor];
  const size_t rank =
      stage.copy_of >= 0 ? tensor.shape.size() : tensor.axes.size() + tensor.reduce_axes.size();
  const bool factored = stage.factored_axis >= 0;
  if (stage.axis_value.empty()) {
    if (stage.axes.size() != rank) return broken(stage, "axes do not match the tensor");
  } else if (stage.axis_value.size() != rank || factored) {
    return broken(stage, "axis values do not match the tensor");
  }
  if (stage.dot_axis >= 0) {
    const bool fits = stage.dot_axis < static_cast<int>(stage.axes.size()) &&
                      stage.axes[stage.dot_axis].reduction && stage.dot_group > 1;
    if (!fits) return broken(stage, "dot products along no reduction");
  }
  if (stage.matrix >= 0) {
    bool fits = stage.matrix < static_cast<int>(nest.target->atoms.size());
    for (int side = 0; side < 3; ++side) {
      const int axis = stage.matrix_axes[side];
      fits = fits && axis >= 0 && axis < static_cast<int>(stage.axes.size()) &&
             stage.axes[axis].reduction == (side == 2);
    }
    const int over = stage.rows_over;
    fits = fits && over < static_cast<int>(stage.axes.size()) &&
           (over < 0 || (!stage.axes[over].reduction && over != stage.matrix_axes[0] &&
                         over != stage.matrix_axes[1]));
    if (!fits) return broken(stage, "products of matrices along other axes than it has");
  }
  if (stage.swizzled && (stage.copy_of < 0 || stage.memory < 0 || stage.pad > 0)) {
    return broken(stage, "is swizzled, and no plain copy that a group shares");
  }
  const bool grid = std::any_of(stage.loops.begin(), stage.loops.end(), [](const Loop& loop) {
    return loop.kind == LoopKind::kParallel;
  });
  if (stage.cluster != 1 && (stage.cluster < 1 || !grid)) {
    return broken(stage, "has clusters of no groups");
  }
  if (stage.producer && !grid) return broken(stage, "has a producer for no groups");
  if (stage.boxed && !stage.swizzled) return broken(stage, "is copied as boxes, and not swizzled");
  if (stage.wide && (stage.copy_of < 0 || !is_narrow(tensor.type)))
    return broken(stage, "widens what is no 16-bit float");
  if (stage.group > 0) {
    const bool fits = stage.copy_of >= 0 && stage.group_dim >= 0 &&
                      stage.group_dim < static_cast<int>(rank) &&
                      (stage.block == 0 || stage.group_dim != stage.block_dim);
    if (!fits) return broken(stage, "groups along no dimension of their own");
  }
  if (factored) {
    bool found = false;
    for (const Loop& loop : stage.loops) {
      for (const LoopPart& part : loop.parts) found = found || is_factored(stage, part);
    }
    if (!found) return broken(stage, "the factored loop is gone");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status verify(const Nest& nest) {
  const int tensors = static_cast<int>(nest.program->tensors.size());
  std::vector<int> computed(tensors);
  std::set<std::string_view> names;
  for (int s = 0; s < static_cast<int>(nest.stages.size()); ++s) {
    const Stage& stage = nest.stages[s];
    if (stage.tensor < 0 || stage.tensor >= tensors) return broken(stage, "computes no tensor");
    if (!names.insert(stage.name).second) return broken(stage, "has its name twice");
    if (stage.copy_of >= 0 ? stage.copy_of != stage.tensor : ++computed[stage.tensor] > 1) {
      return broken(stage, "computes what another does");
    }
    if (stage.place == Place::kInlined &&
        nest.program->tensors[stage.tensor].role == Role::kOutput) {
      return broken(stage, "an output is inlined");
    }
    RETURN_IF_ERROR(verify_axes(nest, stage));
    RETURN_IF_ERROR(verify_loops(nest, stage));
    RETURN_IF_ERROR(verify_place(nest, s));
    RETURN_IF_ERROR(verify_lists(nest, s));
  }
  for (int t = 0; t < tensors; ++t) {
    const Tensor& tensor = nest.program->tensors[t];
    if ((tensor.role == Role::kInput) == (computed[t] == 1)) {
      return absl::InternalError(
          concat("tensor ", tensor.name, " is computed ", computed[t], " times"));
    }
  }
  return absl::OkStatus();
}

}  // namespace lw
