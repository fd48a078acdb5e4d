// Chains and boxes: where every stage stands, and which points of its axes the code inside each
// loop covers; then the same for one thread's part of it. Stages are visited readers first, since
// the box of an attached stage is what its readers read of it.
#include "cost_model/cpu/analysis.h"

#include <algorithm>
#include <cmath>

#include "absl/container/inlined_vector.h"
#include "src/base/check.h"
#include "src/expr/expr.h"

namespace lw {
namespace cost {
namespace {

using Box = absl::InlinedVector<double, 8>;  // points of each axis

bool runs(const Stage& stage) {
  return stage.place != Place::kInlined && stage.place != Place::kEpilogue;
}

// Grows `box` (dims of `tensor`) to what `reader` reads of it where its axes span `reader_box`.
void include_reads(const Nest& nest, const StageCost& reader, int tensor, const double* reader_box,
                   Box& box) {
  const Tensor& t = nest.program->tensors[tensor];
  for (size_t d = 0; d < t.shape.size(); ++d) {
    const double whole = static_cast<double>(t.shape[d]);
    double first = whole, end = -whole;    // of all reads together: a window apart from each other
    for (const Access& access : reader.body.accesses) {
      if (access.tensor != tensor) continue;
      const IndexForm& form = access.dims[d];
      const double start = static_cast<double>(form.constant);
      first = std::min(first, start);
      end = std::max(end, start + extent(form, reader_box, whole));
    }
    box[d] = std::max(box[d], std::min(whole, end - first));
  }
}

bool serves(const Stage& reader, int copy) {
  return std::any_of(reader.copies.begin(), reader.copies.end(),
                     [&](const Stage::Copy& c) { return c.stage == copy; });
}

bool within(const Analysis& analysis, int cost, int host) {
  while (cost >= 0 && cost != host) cost = analysis.stages[cost].host;
  return cost == host;
}

// Of a stage that is dealt along an axis of the host's.
Box dealt_region(const Nest& nest, const Analysis& analysis, const StageCost& cost, int position,
                 bool of_one) {
  const Stage& stage = nest.stages[cost.stage];
  const StageCost& host = analysis.stages[cost.host];
  const double* at = of_one ? host.share_at(position) : host.box_at(position);
  Box axes;
  for (const NestAxis& axis : stage.axes) axes.push_back(static_cast<double>(axis.extent));
  axes[stage.along] = at[dealt_axis(nest, stage)];
  return axes;
}

// Extents of the stage's axes that one iteration at `position` of the host's chain needs, of all
// threads or of one.
Box region(const Nest& nest, const Analysis& analysis, const StageCost& cost, int position,
           bool of_one) {
  const Stage& stage = nest.stages[cost.stage];
  if (stage.along >= 0) return dealt_region(nest, analysis, cost, position, of_one);
  absl::InlinedVector<int, 4> tensors = {stage.copy_of >= 0 ? stage.copy_of : stage.tensor};
  for (int e : stage.epilogue) tensors.push_back(nest.stages[e].tensor);
  const size_t rank = nest.program->tensors[tensors[0]].shape.size();
  Box box(rank, 1);
  for (int r = 0; r < static_cast<int>(analysis.stages.size()); ++r) {
    const StageCost& reader = analysis.stages[r];
    if (&reader == &cost || !within(analysis, r, cost.host) || reader.end < position) continue;
    if (stage.copy_of >= 0 && !serves(nest.stages[reader.stage], cost.stage)) continue;
    for (int tensor : tensors) {
      const double* at = of_one ? reader.share_at(position) : reader.box_at(position);
      if (nest.program->tensors[tensor].shape.size() == rank)
        include_reads(nest, reader, tensor, at, box);
    }
  }
  Box axes;
  for (size_t a = 0; a < stage.axes.size(); ++a) {
    const double whole = static_cast<double>(stage.axes[a].extent);
    const bool spatial = a < rank && runs_along(stage, a) && !stage.axes[a].reduction;
    axes.push_back(spatial ? std::min(whole, box[a]) : whole);
  }
  return axes;
}

// The stage's own loops: trips, and the boxes inside them.
void add_own_loops(const Stage& stage, Box box, StageCost& cost) {
  for (const Loop& loop : stage.loops) {
    double trips = 1;
    for (const LoopPart& part : loop.parts) {
      const double tile = static_cast<double>(part.tile), range = box[part.axis];
      const double ratio = std::max(1.0, range / tile);
      trips *= loop.tail == Tail::kCompose ? ratio : std::ceil(ratio);
      box[part.axis] = std::min(range, tile);
    }
    cost.trips.push_back(trips);
    cost.box.insert(cost.box.end(), box.begin(), box.end());
  }
}

const StageCost& owner_of(const Analysis& analysis, const StageCost& cost, int loop) {
  const StageCost* owner = &cost;
  while (owner->host >= 0 && loop < owner->depth) owner = &analysis.stages[owner->host];
  return *owner;
}

// Tasks of the parallel loop around or in the stage, and how often it is entered.
void find_tasks(const Nest& nest, const Analysis& analysis, StageCost& cost) {
  double entered = 1;
  for (int l = 0; l < static_cast<int>(cost.trips.size()) && cost.parallel < 0; ++l) {
    const StageCost& owner = owner_of(analysis, cost, l);
    if (nest.stages[owner.stage].loops[l - owner.depth].kind == LoopKind::kParallel) {
      cost.parallel = l;
      cost.tasks = std::ceil(cost.trips[l] - 1e-9);
      // The last task of a loop may be a small rest.
      cost.chunk = std::min(cost.trips[l], std::ceil(cost.tasks / std::max(1, nest.threads)));
      cost.regions = &owner == &cost ? entered : 0;
    }
    entered *= cost.trips[l];
  }
}

// One thread's part: consecutive iterations of the parallel loop, of whose parts the last run
// fastest. Outside that loop it covers a fraction of the parts' axes; inside, everything.
void find_share(const Nest& nest, const Analysis& analysis, StageCost& cost) {
  cost.share = cost.box;
  if (cost.parallel < 0) return;
  const size_t axes = static_cast<size_t>(cost.axes());
  if (cost.parallel < cost.depth) {        // a host's loop
    for (int p = 0; p <= cost.depth; ++p) {
      const Box box = region(nest, analysis, cost, p, /*of_one=*/true);
      std::copy(box.begin(), box.end(), cost.share.begin() + static_cast<long>(p * axes));
    }
    return;
  }
  double left = cost.chunk;
  const Loop& loop = nest.stages[cost.stage].loops[cost.parallel - cost.depth];
  for (size_t i = loop.parts.size(); i-- > 0;) {
    const LoopPart& part = loop.parts[i];
    const double count =
        std::max(1.0, cost.box_at(cost.parallel)[part.axis] / static_cast<double>(part.tile));
    const double covered = std::min(count, left);
    left = std::max(1.0, left / count);
    for (int p = 0; p <= cost.parallel; ++p) {
      double& size = cost.share[p * axes + part.axis];
      size = std::max(size * covered / count, cost.box_at(cost.parallel + 1)[part.axis]);
    }
  }
}

void add_stage(const Nest& nest, int s, Analysis& analysis, std::vector<int>& cost_of) {
  const Stage& stage = nest.stages[s];
  cost_of[s] = static_cast<int>(analysis.stages.size());
  analysis.stages.emplace_back();
  StageCost& cost = analysis.stages.back();
  cost.stage = s;
  cost.timed = stage.place != Place::kPrepack;
  cost.body = make_body(nest, s);
  Box box;
  if (stage.place == Place::kAt) {
    cost.host = cost_of[stage.host];
    const StageCost& host = analysis.stages[cost.host];
    cost.depth = host.depth + find_loop(nest.stages[stage.host], stage.loop) + 1;
    cost.trips.assign(host.trips.begin(), host.trips.begin() + cost.depth);
    for (int p = 0; p <= cost.depth; ++p) {
      box = region(nest, analysis, cost, p, /*of_one=*/false);
      cost.box.insert(cost.box.end(), box.begin(), box.end());
    }
  } else {
    for (const NestAxis& axis : stage.axes) box.push_back(static_cast<double>(axis.extent));
    cost.box.assign(box.begin(), box.end());
  }
  cost.end = cost.depth + static_cast<int>(stage.loops.size());
  cost.run = cost.depth + run_begin(stage);
  cost.tile = cost.depth + tile_begin(stage);
  add_own_loops(stage, std::move(box), cost);
  cost.lanes = 1;
  if (!stage.loops.empty() && stage.loops.back().kind == LoopKind::kVector) {
    cost.lanes = stage_lanes(nest, s);
    cost.vector_axis = stage.loops.back().parts[0].axis;
    cost.vector_reduces = cost.body.reduces && stage.axes[cost.vector_axis].reduction;
  }
  for (int l = 0; l < cost.run - cost.depth && cost.body.reduces; ++l) {
    cost.accumulates_in_memory = cost.accumulates_in_memory || is_reduction(stage, stage.loops[l]);
  }
  find_tasks(nest, analysis, cost);
  find_share(nest, analysis, cost);
}

}  // namespace

AxisMask masked_axes(const Stage& stage, const StageCost& cost) {
  AxisMask axes = 0;
  for (int l = cost.depth; l < cost.tile; ++l) {
    const Loop& loop = stage.loops[l - cost.depth];
    if (loop.tail != Tail::kMask) continue;
    for (const LoopPart& part : loop.parts) {
      const double range = cost.box_at(l)[part.axis], tile = static_cast<double>(part.tile);
      if (range > tile && std::fmod(range, tile) != 0) axes |= AxisMask{1} << (part.axis & 63);
    }
  }
  return axes;
}

void find_chains(const Nest& nest, Analysis& analysis) {
  std::vector<int> cost_of(nest.stages.size(), -1);
  analysis.stages.reserve(nest.stages.size());
  for (int s = static_cast<int>(nest.stages.size()) - 1; s >= 0; --s) {
    if (runs(nest.stages[s])) add_stage(nest, s, analysis, cost_of);
  }
  for (int s = 0; s < static_cast<int>(nest.stages.size()); ++s) {
    if (nest.stages[s].place == Place::kRoot) analysis.order.push_back(cost_of[s]);
  }
}

}  // namespace cost

Analysis analyze(const Nest& nest) {
  Analysis analysis;
  cost::find_chains(nest, analysis);
  cost::find_arrays(nest, analysis);
  cost::cost_tiles(nest, analysis);
  cost::find_traffic(nest, analysis);
  cost::combine(nest, analysis);
  return analysis;
}

}  // namespace lw
