// Stages of the vector engine: operations of whole boxes at its rate, and the copies of operands
// and results. What the array's columns are to products, rows of vectors are here.
#include <algorithm>
#include <cmath>

#include "cost_model/npu/model.h"
#include "cost_model/npu/parts.h"
#include "schedules/npu/vector.h"
#include "schedules/targets/npu/npu_target.h"
#include "src/expr/expr.h"

namespace lw::cost::npu {
namespace {

using lw::npu::Config;
using lw::npu::RateConfig;

double cycles_of(const RateConfig& cpi, const VectorOp& op) {
  switch (op.kind) {
    case VectorOp::Kind::kRequantise: return cpi.req;
    case VectorOp::Kind::kZero:
    case VectorOp::Kind::kCopy: return cpi.add;
    case VectorOp::Kind::kReduce: return op.reduce == Reduce::kSum ? cpi.add : cpi.max;
    default: break;
  }
  switch (op.expr_op) {
    case ExprOp::kMul: return cpi.mul;
    case ExprOp::kMax:
    case ExprOp::kMin:
    case ExprOp::kGt: return cpi.max;
    case ExprOp::kExp:
    case ExprOp::kTanh: return cpi.exp;
    case ExprOp::kRsqrt: return cpi.rsqrt;
    case ExprOp::kDiv: return cpi.rsqrt + (op.number == 1 ? 0 : cpi.mul);
    default: return cpi.add;
  }
}

}  // namespace

VectorWork work_of(const Config& config, const VectorCode& code, const std::vector<int64_t>& box) {
  VectorWork work;
  const auto compute = [&](int value, double cycles) {
    const VectorTile& tile = code.values[static_cast<size_t>(value)].tile;
    work.operations += 1;
    work.cycles += static_cast<double>(tile_layout(config, tile, box).elements) /
                   static_cast<double>(config.ve.lanes) * cycles;
  };
  // A row's vectors become one, and that an element.
  const auto add_up_rows = [&](int columns) {
    const BoxLayout layout =
        tile_layout(config, code.values[static_cast<size_t>(columns)].tile, box);
    work.cycles += static_cast<double>(layout.elements) /
                   static_cast<double>(layout.extents.back()) *
                   std::log2(static_cast<double>(config.ve.lanes));
  };
  for (const VectorOp& op : code.ops) {
    if (op.kind == VectorOp::Kind::kReduce) {
      compute(op.srcs[0], cycles_of(config.ve.cpi, op));
      if (reduces_rows(code, op)) add_up_rows(op.dst);
    } else {
      compute(op.dst, cycles_of(config.ve.cpi, op));
    }
  }
  if (code.reduce != Reduce::kNone) {
    const double cycles = code.reduce == Reduce::kSum ? config.ve.cpi.add : config.ve.cpi.max;
    compute(code.body, cycles);
    if (code.rows != code.body) compute(code.rows, cycles);
    if (code.by_rows) {
      add_up_rows(code.partial);
      compute(code.partial, cycles);
    }
  }
  if (code.stored != code.result) compute(code.stored, config.ve.cpi.req);
  return work;
}

Transfer operand_of(const Dram& dram, const Program& program, const VectorValue& value,
                    const std::vector<int64_t>& box) {
  int64_t run = 1, stride = 0;
  double runs = 1;
  for (size_t d = value.tile.steps.size(); d-- > 0;) {
    const int64_t extent = box_extent(value.tile.steps[d], box);
    if (extent == 1) continue;
    if (runs == 1 && value.source_strides[d] == run) {
      run *= extent;
      continue;
    }
    if (runs == 1) stride = std::abs(value.source_strides[d]);
    runs *= static_cast<double>(extent);
  }
  const Type type = value.tensor < 0 ? value.tile.type
                                     : program.tensors[static_cast<size_t>(value.tensor)].type;
  const int64_t size = size_of(type);
  return dram.runs_of(run * size, runs, stride * size);
}

StageTimes vector_times(const Nest& nest, int stage) {
  StageTimes t;
  const Stage& s = nest.stages[stage];
  const absl::StatusOr<VectorCode> code = vector_code(nest, stage);
  if (!code.ok()) return t;
  const Config& config = npu_config(*nest.target);
  const Program& program = *nest.program;
  const Dram dram(config);
  const int tile = tile_begin(s);
  const std::vector<int64_t> box = inner_extents(s, tile);
  const double boxes = product_of_loops(s, 0, tile, iterations);
  const double started = product_of_loops(s, 0, tile, whole);
  const VectorWork work = work_of(config, *code, box);
  t.instructions = started * work.operations;
  t.array = t.instructions * static_cast<double>(config.ve.startup) + boxes * work.cycles;

  double first = 0;
  for (const VectorValue& value : code->values) {
    if (value.kind != VectorValue::Kind::kOperand) continue;
    int depth = 0;
    for (int l = 0; l < tile; ++l) {
      const size_t axis = static_cast<size_t>(s.loops[l].parts[0].axis);
      if (trips(s, l) > 1 && value.source_steps[axis] != 0) depth = l + 1;
    }
    const Transfer transfer = operand_of(dram, program, value, box);
    const double setups = product_of_loops(s, 0, depth, whole);
    const double times = product_of_loops(s, 0, depth, iterations);
    t.load_a += transfer.cycles * times + static_cast<double>(config.dma.setup) * setups / 2;
    t.bytes_a += transfer.bytes * times;
    t.run_a = std::max(t.run_a, transfer.run);
    t.instructions += setups;
    first += transfer.cycles + static_cast<double>(config.dma.setup);
  }
  const int held = s.held.empty() ? 0 : find_loop(s, s.held) + 1;
  const Tensor& tensor = program.tensors[static_cast<size_t>(s.tensor)];
  const std::vector<int64_t> kept(box.begin(),
                                  box.begin() + static_cast<int64_t>(tensor.shape.size()));
  const Transfer out = dram.box(tensor, kept);
  const double stores = product_of_loops(s, 0, held, whole);
  t.store = out.cycles * product_of_loops(s, 0, held, iterations) +
            static_cast<double>(config.dma.setup) * stores / 2;
  t.bytes_stored = out.bytes * product_of_loops(s, 0, held, iterations);
  t.run_stored = out.run;
  t.instructions += stores;
  t.slots_a = t.slots_b = t.slots_held = s.slots;
  const VectorBytes bytes = vector_room(config, *code, box).with(s.slots);
  t.spm_share = static_cast<double>(bytes.spm) / static_cast<double>(config.spm.bytes);
  t.acc_share = static_cast<double>(bytes.acc) / static_cast<double>(config.acc.bytes);
  t.rows = t.tile_rows = 1;
  for (size_t a = 0; a < box.size(); ++a) {
    const double extent = static_cast<double>(box[a]);
    if (static_cast<int>(a) == code->vector_axis) t.columns = t.tile_columns = extent;
    else t.rows = t.tile_rows = t.rows * extent;
  }

  const double latency = static_cast<double>(config.dma.latency + config.dma.setup);
  const double dispatch = t.instructions * static_cast<double>(config.queues.dispatch);
  t.fill = first + latency;
  t.drain = out.cycles + latency;
  const double dma = t.load_a + t.store;
  t.overlapped = s.slots > 1 ? 1 : 0;
  // In one slot a box is fetched, computed and stored before the next is.
  t.cycles = s.slots > 1 ? std::max({t.array, dma, dispatch})
                         : std::max(t.array + dma + 2 * started * latency, dispatch);
  t.cycles += t.fill + t.drain;
  return t;
}

}  // namespace lw::cost::npu
