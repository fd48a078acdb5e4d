#include <algorithm>
#include <cmath>
#include <utility>

#include "cost_model/npu/model.h"
#include "cost_model/npu/parts.h"
#include "schedules/npu/windows.h"
#include "schedules/targets/npu/machine.h"
#include "schedules/targets/npu/npu_target.h"
#include "src/expr/expr.h"

namespace lw::cost::npu {
namespace {

using lw::npu::Config;

std::vector<int64_t> box_of(const std::vector<std::vector<int64_t>>& steps,
                            const std::vector<int64_t>& extents) {
  std::vector<int64_t> box;
  for (const std::vector<int64_t>& dim : steps) box.push_back(box_extent(dim, extents));
  return box;
}

// What the array does before the products of a box: windows, and the instructions that pack them,
// along one dimension each.
struct Packing {
  double cycles = 0, instructions = 0;
};
Packing packing_of(const Config& config, const NpuProduct& product,
                   const std::vector<int64_t>& extents) {
  Packing packing;
  if (!product.packs) return packing;
  const std::vector<int64_t> rows = box_of(product.a_steps, extents);
  packing.instructions = 1;
  for (size_t d = 0; d + 2 < rows.size(); ++d) packing.instructions *= static_cast<double>(rows[d]);
  double bytes = static_cast<double>(size_of(product.a->type));
  for (const int64_t extent : rows) bytes *= static_cast<double>(extent);
  packing.cycles = bytes / static_cast<double>(config.mx.col_bpc);
  return packing;
}

// Instructions with the same weights in a row: those of the innermost loops that move no weights.
double reuse_of_weights(const Stage& s, const NpuProduct& product, int begin, int end) {
  double reuse = 1;
  for (int l = end; l-- > begin;) {
    if (trips(s, l) == 1) continue;
    for (const std::vector<int64_t>& dim : product.b_steps) {
      if (dim[s.loops[l].parts[0].axis] != 0) return reuse;
    }
    reuse *= whole(s, l);
  }
  return reuse;
}

// Whether the loops from `depth` on go through the first dimension of what these steps move before
// all else: then a part of a box is all that the array needs, or gives, for a while.
bool goes_by_parts(const Stage& s, int depth, const std::vector<std::vector<int64_t>>& steps) {
  for (int l = depth; l < static_cast<int>(s.loops.size()); ++l) {
    if (s.loops[l].kind == LoopKind::kUnroll) return false;
    if (trips(s, l) > 1) return steps[0][static_cast<size_t>(s.loops[l].parts[0].axis)] != 0;
  }
  return false;
}

// The share of the tiles of `block` points of the result, or of the sum, that there are: phases
// have fewer than the loops over the largest.
double share_there(const Stage& s, const NpuProduct& product, bool sum,
                   const std::vector<int64_t>& block) {
  double share = 1;
  for (const NpuProduct::Limit& limit : product.limits) {
    if (limit.sum != sum) continue;
    // The axis of the largest steps runs over the points of a phase, the others over phases.
    size_t cut = 0;
    for (size_t a = 1; a < s.axes.size(); ++a) {
      if (std::abs(limit.steps[a]) > std::abs(limit.steps[cut])) cut = a;
    }
    std::vector<int64_t> begins = {limit.begin};
    for (size_t a = 0; a < s.axes.size(); ++a) {
      if (limit.steps[a] == 0 || a == cut) continue;
      const std::vector<int64_t> from = std::exchange(begins, {});
      for (const int64_t begin : from) {
        for (int64_t p = 0; p < s.axes[a].extent; ++p) begins.push_back(begin + p * limit.steps[a]);
      }
    }
    const auto tiles = [&](int64_t points) { return (points + block[cut] - 1) / block[cut]; };
    int64_t there = 0;
    for (const int64_t begin : begins) {
      there += tiles(inside({0, s.axes[cut].extent}, begin, limit.steps[cut], limit.size).count);
    }
    share *= static_cast<double>(there) / static_cast<double>(begins.size()) /
             static_cast<double>(tiles(s.axes[cut].extent));
  }
  return share;
}

StageTimes times_of(const Nest& nest, int stage) {
  StageTimes t;
  const Stage& s = nest.stages[stage];
  const Config& config = npu_config(*nest.target);
  const std::optional<NpuProduct> product = product_of(nest, stage);
  if (s.variant < 0) return t;
  if (s.variant == kNpuVector) return vector_times(nest, stage);
  if (!product) return t;
  const int tile = tile_begin(s);
  const Program& program = *nest.program;
  const Dram dram(config);

  // The array.
  const std::vector<int64_t> block = inner_extents(s, tile);
  double rows = 1, columns = 1, sums = 1;
  for (size_t a = 0; a < block.size(); ++a) {
    double& extent = product->roles[a] == AxisRole::kColumn ? columns
                     : product->roles[a] == AxisRole::kSum  ? sums
                                                            : rows;
    extent *= static_cast<double>(block[a]);
  }
  t.rows = rows, t.columns = columns, t.sums = sums;
  const std::vector<int64_t> one(block.size(), 1);
  const double points = share_there(s, *product, false, one),
               taps = share_there(s, *product, true, one);
  t.folds = product_of_loops(s, 0, tile, whole) * share_there(s, *product, false, block) * taps;
  // Folds, of full size.
  const double streamed = product_of_loops(s, 0, tile, iterations) * points * taps;
  t.output_stationary = s.variant == kNpuOutputStationary;
  const double rate =
      program.tensors[product->a->index].type == Type::kBF16 ? config.mx.bf16_rate : 1;
  const double r = static_cast<double>(config.mx.rows), c = static_cast<double>(config.mx.columns);
  if (t.output_stationary) {
    t.array = std::max(streamed * sums / rate, t.folds * r);
  } else {
    t.weight_loads = t.folds / reuse_of_weights(s, *product, 0, tile);
    t.array = std::max({streamed * rows / rate, t.folds * static_cast<double>(config.mx.m_min),
                        t.weight_loads * r});
  }
  t.macs = points * taps;
  for (const NestAxis& axis : s.axes) t.macs *= static_cast<double>(axis.extent);

  // Copies, and what the array packs of one.
  struct Load {
    double cycles = 0, first = 0, times = 1;  // of all; until the first can be begun with
    double alone = 0;                         // share that nothing is computed beside: all where
                                              // what reads its only slot is waited for
  } loads[2];
  // A queue that is full holds up what comes behind for other engines.
  const auto queued = [&](const Transfer& transfer) {
    return std::max(0.0, 1 - static_cast<double>(config.queues.depth) / transfer.parts);
  };
  const auto first_part = [&](const Transfer& transfer) {
    return std::max(1 / transfer.parts, queued(transfer));
  };
  double spm = 0, packing = 0;
  for (const Stage::Copy& served : s.copies) {
    const Stage& copy = nest.stages[served.stage];
    const bool b = served.tensor == product->b->index;
    const int depth = copy.place == Place::kAt ? find_loop(s, copy.loop) + 1 : 0;
    const std::vector<int64_t> extents = inner_extents(s, depth);
    const SourceBox source = source_box(nest, *product, b, extents);
    const Transfer transfer =
        dram.box(program.tensors[served.tensor].type, source.shape, source.extents);
    const double there = depth == 0 ? 1 : b ? taps : points;
    const double times = product_of_loops(s, 0, depth, iterations) * there;
    const double setups =
        product_of_loops(s, 0, depth, whole) * share_there(s, *product, false, extents);
    const double cycles =
        transfer.cycles * times + static_cast<double>(config.dma.setup) * setups / 2;
    (b ? t.load_b : t.load_a) = cycles;
    (b ? t.bytes_b : t.bytes_a) = transfer.bytes * times;
    (b ? t.run_b : t.run_a) = transfer.run;
    (b ? t.slots_b : t.slots_a) = copy.slots;
    t.instructions += setups;
    const bool packs = !b && product->packs;
    const bool parts = !packs && goes_by_parts(s, depth, b ? product->b_steps : product->a_steps);
    loads[b] = {cycles, transfer.cycles * (parts ? first_part(transfer) : 1), setups,
                copy.slots == 1 && setups > 1 ? 1 : queued(transfer)};
    spm += static_cast<double>(operand_bytes(config, *product, b, extents) * copy.slots);
    if (b) continue;
    const Packing packed = packing_of(config, *product, extents);
    packing = packed.cycles;
    t.array += packed.cycles * times;
    t.instructions += packed.instructions * setups;
  }
  const int held = s.held.empty() ? 0 : find_loop(s, s.held) + 1;
  const std::vector<int64_t> kept = inner_extents(s, held);
  const int stored = s.epilogue.empty() ? s.tensor : nest.stages[s.epilogue.back()].tensor;
  const Transfer out = dram.box(program.tensors[stored].type, product->dst_shape,
                                box_of(product->dst_steps, kept));
  const double stores =
      product_of_loops(s, 0, held, whole) * share_there(s, *product, false, kept);
  const double last_store =
      out.cycles * (goes_by_parts(s, held, product->dst_steps) ? first_part(out) : 1);
  const double boxes = product_of_loops(s, 0, held, iterations) * points;
  t.store = out.cycles * boxes + static_cast<double>(config.dma.setup) * stores / 2;
  t.bytes_stored = out.bytes * boxes;
  t.run_stored = out.run;
  t.slots_held = s.slots;
  t.acc_share = static_cast<double>(result_layout(config, *product, kept).bytes * s.slots) /
                static_cast<double>(config.acc.bytes);
  t.spm_share = spm / static_cast<double>(config.spm.bytes);
  t.instructions += t.folds + t.weight_loads + stores;
  // What finishes the results.
  const absl::StatusOr<std::optional<VectorCode>> finish = epilogue_code(nest, stage);
  if (finish.ok() && finish->has_value()) {
    const std::vector<int64_t> box = result_box(*product, kept);
    const VectorWork work = work_of(config, **finish, box);
    t.instructions += stores * work.operations;
    t.vectors = stores * work.operations * static_cast<double>(config.ve.startup) +
                boxes * work.cycles;
    for (const VectorValue& value : (*finish)->values) {
      if (value.kind != VectorValue::Kind::kOperand) continue;
      const Transfer transfer = operand_of(dram, program, value, box);
      t.store += transfer.cycles * boxes + static_cast<double>(config.dma.setup) * stores / 2;
      t.instructions += stores;
    }
  }
  for (size_t a = 0; a < kept.size(); ++a) {
    const double extent = static_cast<double>(inner_extents(s, std::min(tile, held))[a]);
    (product->roles[a] == AxisRole::kColumn ? t.tile_columns
     : product->roles[a] == AxisRole::kSum  ? t.tile_sums
                                            : t.tile_rows) += extent;
  }

  // What one slot lets wait for the other is not beside it, nor what comes behind a load that
  // waits: LD does one after the other, a's before b's.
  const double latency = static_cast<double>(config.dma.latency + config.dma.setup);
  const double wave = r + c + static_cast<double>(config.mx.latency);
  const double behind = loads[0].alone == 1 ? std::min(1.0, loads[0].times / loads[1].times) : 0;
  loads[1].alone = std::max(loads[1].alone, behind);
  double alone = 0;
  for (const Load& load : loads) {
    alone += load.alone * (load.cycles - load.first + (load.times - 1) * (latency + wave + r));
    t.fill += load.first;
  }
  t.fill += latency + packing + 2 * r;
  t.drain = wave + last_store + latency;
  t.overlapped = 1 - std::min(1.0, alone / std::max(1.0, t.load_a + t.load_b));
  const double held_alone =
      t.slots_held > 1 ? t.store * queued(out)
                       : (stores - 1) * (last_store + wave + latency) + t.vectors;
  const double dma = t.load_a + t.load_b + t.store + 2 * latency;
  const double dispatch = t.instructions * static_cast<double>(config.queues.dispatch);
  t.cycles = std::max({t.fill + t.array + alone + held_alone + t.drain, dma, dispatch, t.vectors});
  return t;
}

}  // namespace

std::vector<StageTimes> stage_times(const Nest& nest) {
  std::vector<StageTimes> times;
  for (int s = 0; s < static_cast<int>(nest.stages.size()); ++s) {
    const Stage& stage = nest.stages[s];
    const bool runs = stage.copy_of < 0 && stage.place != Place::kEpilogue &&
                      stage.place != Place::kInlined;
    if (runs) times.push_back(times_of(nest, s));
  }
  return times;
}

}  // namespace lw::cost::npu
