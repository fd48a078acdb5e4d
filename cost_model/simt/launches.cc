// Items in step, `simd` of a group, issue an instruction together, each for itself. A unit hides
// what a group waits for behind others that it holds: as many as its items, its registers and its
// local memory suffice for. What neighbours ask a memory for comes in pieces (wide.h).
//
// How often tiles run, and what crosses the caches, is known of the analysis of processors
// (cpu/analysis.h), for which items are iterations of a loop.
#include "cost_model/simt/launches.h"

#include <algorithm>
#include <cmath>

#include "cost_model/cpu/processor.h"
#include "cost_model/simt/dealing.h"
#include "cost_model/simt/matrices.h"
#include "cost_model/simt/once.h"
#include "cost_model/simt/registers.h"
#include "cost_model/simt/together.h"
#include "cost_model/simt/where.h"
#include "schedules/targets/matrix_shape.h"
#include "schedules/targets/simt/simt_target.h"

namespace lw::cost::simt {
namespace {

// Of the registers that an item may have at most it has this share where a unit is full of items.
constexpr double kFullRegisters = 0.25;
constexpr double kLoopSlots = 2;           // of an update: count, compare and branch
constexpr double kGuardSlots = 8;          // of an access under a mask: conditions, a place, a choice
constexpr double kBoxSlots = 16;           // of a box: its coordinates, its place, what is expected

// One root stage, and what stands at its loops.
class Group {
 public:
  // `walk`: the analysis of what is touched.
  Group(const Nest& nest, const Nest& processor, const Analysis& analysis, const Analysis& walk,
        int root)
      : nest_(nest), processor_(processor), analysis_(analysis), walk_(walk),
        target_(lw::simt(*nest.target)), root_(analysis.stages[root]) {
    launch_.stage = root_.stage;
    launch_.units = units_for(target_, nest.stages[root_.stage].cluster);
    if (root_.parallel >= 0) launch_.groups = root_.tasks;
    for (int l = 0; l < root_.tile && shared_ < 0; ++l) {
      if (loop_at(nest_, analysis_, root_, l)->kind == LoopKind::kItem) shared_ = l;
    }
    if (shared_ >= 0) launch_.items = std::max(1.0, root_.trips[shared_]);
    const int64_t items = nest.stages[root_.stage].items;
    if (items > 0) launch_.items = static_cast<double>(items);
    dealings_.resize(analysis.stages.size());
  }

  Launch run() {
    for (int c = 0; c < static_cast<int>(analysis_.stages.size()); ++c) {
      const StageCost& cost = analysis_.stages[c];
      if (&root_of(analysis_, cost) != &root_) continue;
      dealings_[c] = dealing_of(cost);
      dealings_[c].masked = masked_axes(stage_of(cost), cost);
      hold(cost);
      work(cost, dealings_[c]);
    }
    fill_units();
    far();
    finish();
    return std::move(launch_);
  }

 private:
  const Stage& stage_of(const StageCost& cost) const { return nest_.stages[cost.stage]; }
  bool company() const { return launch_.items > 1; }
  // Whether items part around it.
  bool inside_items(const StageCost& cost) const {
    return &cost != &root_ && shared_ >= 0 && cost.depth > shared_;
  }

  // The region of a shared copy that all items read.
  std::vector<double> group_box(const StageCost& cost) const {
    std::vector<double> box = box_of(cost, cost.depth);
    if (!inside_items(cost) || cost.host < 0) return box;
    const StageCost& host = analysis_.stages[cost.host];
    std::vector<double> reader = box_of(host, std::min(cost.depth, host.end));
    if (&host == &root_) {
      for (const LoopPart& part : loop_at(nest_, analysis_, root_, shared_)->parts) {
        reader[part.axis] = root_.box_at(shared_)[part.axis];
      }
    }
    const int tensor = stage_of(cost).tensor;
    const auto& shape = nest_.program->tensors[tensor].shape;
    for (const Access& access : host.body.accesses) {
      if (access.tensor != tensor) continue;
      for (size_t d = 0; d < shape.size() && d < box.size(); ++d) {
        const double whole = static_cast<double>(shape[d]);
        box[d] = std::max(box[d], extent(access.dims[d], reader.data(), whole));
      }
    }
    return box;
  }

  Dealing dealing_of(const StageCost& cost) const {
    Dealing dealing;
    const Stage& stage = stage_of(cost);
    for (int l = 0; l < cost.tile - cost.depth; ++l) {
      if (stage.loops[l].kind != LoopKind::kItem) continue;
      const std::vector<double> box =
          &cost == &root_ ? box_of(cost, l) : group_box(cost);
      if (inside_items(cost)) {
        // The analysis has it run once for each iteration of the loop that items share.
        const double runs = std::max(1.0, root_.trips[shared_]);
        dealing.scale = product(box) / product(box_of(cost, cost.depth)) / runs;
      }
      for (const LoopPart& part : stage.loops[l].parts) {
        Dealing::Part dealt;
        const double tile = static_cast<double>(part.tile);
        dealt.count = std::ceil(std::max(1.0, box[part.axis] / tile));
        dealt.moves.assign(cost.axes(), 0);
        dealt.moves[part.axis] = tile;
        dealing.dealt *= dealt.count;
        dealing.parts.push_back(std::move(dealt));
      }
    }
    if (!dealing.parts.empty() || !inside_items(cost)) return dealing;
    return dealt_with(cost, analysis_.stages[cost.host]);
  }

  // What an item does for itself moves as what reads it does.
  Dealing dealt_with(const StageCost& cost, const StageCost& host) const {
    const Dealing& of_host = dealings_[&host - analysis_.stages.data()];
    Dealing dealing;
    dealing.dealt = of_host.dealt;
    for (const Dealing::Part& part : of_host.parts) {
      Dealing::Part dealt{part.count, {}};
      dealt.moves.assign(cost.axes(), 0);
      for (const Access& access : host.body.accesses) {
        if (access.tensor != stage_of(cost).tensor) continue;
        const size_t dims = std::min(access.dims.size(), dealt.moves.size());
        for (size_t d = 0; d < dims; ++d) {
          double moved = 0;
          for (int a = 0; a < host.axes(); ++a) {
            if (part.moves[a] != 0) moved += part.moves[a] * stride_of(access.dims[d], a);
          }
          dealt.moves[d] = moved;
        }
        break;
      }
      dealing.parts.push_back(std::move(dealt));
    }
    return dealing;
  }

  // Memory and registers.
  void hold(const StageCost& cost) {
    const Stage& stage = stage_of(cost);
    const double vectors = std::max(cost.registers, std::min(16.0, cost.rows * cost.columns));
    const Tensor& tensor = nest_.program->tensors[stage.tensor];
    const double lane = std::max(4, size_of(tensor.type));
    const double held = stage.matrix >= 0 ? 4 * tile_of(cost).words : vectors * cost.lanes * lane;
    registers_ = std::max(registers_, held);
    const double own = item_registers(nest_, analysis_, cost, launch_.items);
    launch_.registers = std::max(launch_.registers, own);
    if (stage.place != Place::kAt) return;
    std::vector<double> box = stage.memory >= 0 ? group_box(cost) : box_of(cost, cost.depth);
    box.resize(std::min(box.size(), tensor.shape.size()));
    const double size = stage.wide ? 4 : size_of(tensor.type);
    double bytes = product(box) * size * stage.slots;
    if (stage.pad > 0 && !box.empty()) {
      const double row = stage.block > 0 ? static_cast<double>(stage.block) : box.back();
      bytes *= (row + static_cast<double>(stage.pad)) / row;
    }
    (stage.memory >= 0 ? launch_.local_bytes : own_) += bytes;
  }

  // What of so much work, as the analysis counts it, one item does of a group.
  double of_an_item(double work, const Dealing& dealing) const {
    work *= dealing.scale / launch_.groups;
    return work / dealing.dealt * std::ceil(dealing.dealt / launch_.items);
  }
  double busy_items(const Dealing& dealing) const {
    return dealing.parts.empty() ? launch_.items : std::min(dealing.dealt, launch_.items);
  }

  MatrixTile tile_of(const StageCost& cost) const {
    return matrix_tile(nest_, stage_of(cost), cost.box_at(cost.tile));
  }

  // Of all sub-groups: each has a tile of its own.
  void multiply(const StageCost& cost, const Dealing& dealing) {
    const MatrixTile tile = tile_of(cost);
    const Atom& atom = nest_.target->atoms[stage_of(cost).matrix];
    const double times = of_an_item(cost.updates, dealing);
    launch_.issue += (tile.slots() + made_slots(nest_, cost) + kLoopSlots) * times * dealing.dealt;
    launch_.matrices += tile.products() * tile.share() * times * dealing.dealt / atom.per_cycle;
    bool far = false;
    for (const Access& access : cost.body.accesses) {
      const Where where = where_read(nest_, cost, access);
      far = far || where == Where::kGlobal;
      add_fragments(cost, dealing, access, where, access.epilogue ? cost.finishes : cost.updates);
    }
    store(cost, dealing, cost.finishes, 1);
    launch_.latency += times * ((far ? 1 : 0.5) * cached() + tile.in_turn() * atom.latency);
    if (far) far_waits_ += times;
  }

  void add_fragments(const StageCost& cost, const Dealing& dealing, const Access& access,
                     Where where, double times, bool written = false) {
    const Stage& stage = stage_of(cost);
    const auto moves_with = [&](int side) {
      return (access.axes >> (stage.matrix_axes[side] & 63) & 1) != 0;
    };
    const int side = written || access.epilogue ? 2 : moves_with(0) ? 0 : 1;
    const double element = size_of(nest_.program->tensors[access.tensor].type);
    const bool banks = where == Where::kLocal;
    const FragmentMoves moves = fragment_moves(
        nest_, stage, tile_of(cost), side, banks, element, [&](int axis) {
          return element * (written ? result_stride(processor_, analysis_, cost, access, axis)
                                    : storage_stride(processor_, analysis_, cost, access, axis));
        });
    Wide wide{cost.stage, access.tensor, written, where, moves.bytes, moves.neighbours.lanes};
    wide.count = moves.count * of_an_item(times, dealing) * dealing.dealt;
    wide.pieces = banks ? bank_cycles(moves.neighbours, wide.bytes, target_.simd)
                        : transactions(moves.neighbours, wide.bytes, access_bytes());
    launch_.issue += wide.count * moves.instructions / moves.count;
    move(wide, banks);
  }

  double access_bytes() const { return static_cast<double>(target_.access_bytes); }
  // `banks`: of local memory; else through the nearest cache.
  void move(const Wide& wide, bool banks) {
    if (banks) {
      launch_.local += wide.count * wide.pieces;
    } else {
      launch_.global +=
          wide.moved_bytes(access_bytes()) / nest_.target->caches[0].read_bytes_per_cycle;
    }
    launch_.accesses.push_back(wide);
  }

  void work(const StageCost& cost, const Dealing& dealing) {
    if (stage_of(cost).matrix >= 0) return multiply(cost, dealing);
    if (stage_of(cost).boxed) return copy_boxes(cost, dealing);
    const double in_step = std::ceil(busy_items(dealing) / target_.simd);
    const double lanes = std::max(1.0, cost.lanes * std::min(1.0, cost.lanes_used));
    const double slots = (cost.mix.arithmetic + cost.mix.shuffles) * lanes + cost.mix.loads +
                         cost.mix.stores + kLoopSlots * cost.updates;
    launch_.issue += of_an_item(slots, dealing) * in_step;
    // Vectors that a tile holds follow each other; tiles wait for what they load.
    const double stores = cost.body.reduces ? cost.finishes : cost.updates;
    bool far = false, near = false;
    for (const Access& access : cost.body.accesses) {
      const Where where = where_read(nest_, cost, access);
      far = far || where == Where::kGlobal;
      near = near || where == Where::kLocal;
      const double times = access.epilogue ? stores : cost.updates;
      add(cost, dealing, access, false, where, times, in_step);
    }
    store(cost, dealing, stores, in_step);
    const double wait = cached() * (far ? 1 : near ? 0.5 : 0);
    // Copies that are on their way while others are read are waited for together, all that an item
    // has begun in so many visits.
    const int turns = stage_of(cost).slots;
    const double begun = std::max(1.0, std::ceil(dealing.dealt / launch_.items));
    const double together = target_.async_copies && turns > 1 ? turns * begun : 1;
    const double updates = of_an_item(cost.updates, dealing) / together;
    launch_.latency += updates * (wait + cost.latency_bound);
    far_waits_ += far ? updates : 0;
  }

  // By an engine that one item asks: rows pass by the registers.
  void copy_boxes(const StageCost& cost, const Dealing& dealing) {
    const Stage& stage = stage_of(cost);
    const double points = product(box_of(cost, cost.tile)) * cost.updates;
    const std::vector<double> box = group_box(cost);
    const double moved = points * dealing.scale / launch_.groups, visits = moved / product(box);
    const double blocks = stage.block > 0 ? box[stage.block_dim] / stage.block : 1;
    launch_.issue += kBoxSlots * blocks * visits;
    Wide row{cost.stage, stage.copy_of, false, Where::kGlobal};
    row.lanes = target_.simd;
    row.bytes = static_cast<double>(kWideRowBytes) / row.lanes;
    row.count = moved * size_of(nest_.program->tensors[stage.tensor].type) / kWideRowBytes;
    row.pieces = kWideRowBytes / access_bytes();
    move(row, false);
    row.written = true, row.where = Where::kLocal, row.pieces = 1;
    move(row, true);
    launch_.latency += visits / stage.slots * cached();
    far_waits_ += visits / stage.slots;
  }

  void store(const StageCost& cost, const Dealing& dealing, double times, double in_step) {
    const Stage& stage = stage_of(cost);
    const auto stored = [&](int tensor) {
      const Access result = result_access(processor_, cost, tensor);
      if (stage.matrix >= 0) {
        return add_fragments(cost, dealing, result, where_of(nest_, cost.stage), times, true);
      }
      add(cost, dealing, result, true, where_of(nest_, cost.stage), times, in_step);
    };
    const auto is_output = [&](int tensor) {
      return nest_.program->tensors[tensor].role == Role::kOutput;
    };
    if (stage.copy_of >= 0) stored(stage.copy_of);
    else if (stage.epilogue.empty() || is_output(stage.tensor)) stored(stage.tensor);
    for (const int e : stage.epilogue) {
      const int tensor = nest_.stages[e].tensor;
      if (e == stage.epilogue.back() || is_output(tensor)) stored(tensor);
    }
  }

  // An item's memory of its own is as far as any, but for what registers hold; there items lie side
  // by side.
  double registers() const { return 0.5 * static_cast<double>(target_.register_bytes); }
  double own_bytes(const StageCost& cost, const Access& access, bool written) const {
    int holder = written ? cost.stage : stage_of_tensor(nest_, access.tensor);
    for (const Stage::Copy& copy : stage_of(cost).copies) {
      if (!written && !access.epilogue && copy.tensor == access.tensor) holder = copy.stage;
    }
    if (nest_.stages[holder].place == Place::kEpilogue) holder = nest_.stages[holder].host;
    for (const StageCost& held : analysis_.stages) {
      if (held.stage != holder) continue;
      std::vector<double> box = box_of(held, held.depth);
      const Tensor& tensor = nest_.program->tensors[access.tensor];
      box.resize(std::min(box.size(), tensor.shape.size()));
      return product(box) * size_of(tensor.type);
    }
    return 0;
  }

  // `times` tiles load or store there.
  void add(const StageCost& cost, const Dealing& dealing, const Access& access, bool written,
           Where where, double times, double in_step) {
    const bool own = where == Where::kOwn && company();
    if (own && own_bytes(cost, access, written) <= registers()) return;
    const double element = size_of(nest_.program->tensors[access.tensor].type);
    const auto stride = [&](int axis) {
      return element * (written ? result_stride(processor_, analysis_, cost, access, axis)
                                : storage_stride(processor_, analysis_, cost, access, axis));
    };
    Wide wide;
    wide.stage = cost.stage;
    wide.tensor = access.tensor;
    wide.written = written;
    wide.where = where;
    wide.bytes = element;
    double each = 1;                       // of a tile
    const double* tile = cost.box_at(cost.tile);
    for (int a = 0; a < cost.axes(); ++a) {
      if ((access.axes >> (a & 63) & 1) == 0 || tile[a] <= 1) continue;
      const bool run = a == cost.vector_axis && !access.gathers && std::abs(stride(a)) <= element;
      if (run) wide.bytes = element * std::min<double>(tile[a], cost.lanes);
      each *= run ? std::ceil(tile[a] / cost.lanes) : tile[a];
    }
    wide.lanes = static_cast<int>(std::min<double>(target_.simd, busy_items(dealing)));
    wide.count = of_an_item(times * each, dealing) * in_step;
    Neighbours neighbours;
    neighbours.lanes = wide.lanes;
    for (const Dealing::Part& part : dealing.parts) {
      double moved = 0;
      for (int a = 0; a < cost.axes(); ++a) {
        if (part.moves[a] != 0) moved += part.moves[a] * stride(a);
      }
      neighbours.parts.push_back({part.count, moved});
    }
    const bool banks = where != Where::kGlobal && !own && target_.local_real;
    wide.pieces = own            ? std::max(1.0, wide.lanes * wide.bytes / access_bytes())
                  : access.gathers ? wide.lanes
                  : banks        ? bank_cycles(neighbours, wide.bytes, target_.simd)
                                 : transactions(neighbours, wide.bytes, access_bytes());
    move(wide, banks);
    const AxisMask masked = access.axes & dealing.masked;
    if (masked != 0) launch_.issue += kGuardSlots * wide.count;
    // Lanes that may be off are asked for in a branch, and nothing else until they are there.
    const bool branches = cost.vector_axis >= 0 && (masked >> (cost.vector_axis & 63) & 1) != 0;
    if (branches && !written) launch_.latency += wide.count / in_step * cached();
  }
  double cached() const { return nest_.target->caches[0].latency_cycles; }

  void fill_units() {
    launch_.item_bytes = registers_ + (company() ? own_ : 0);
    const double most = static_cast<double>(target_.register_bytes);
    const double items =
        launch_.items + (nest_.stages[root_.stage].producer ? double{kMatrixItems} : 0.0);
    if (!company() && own_ > most) launch_.local_bytes += own_;
    const bool exact = target_.unit_register_bytes > 0;
    if (exact) launch_.registers = std::min(launch_.registers, most_registers(target_, items));
    const double room = exact ? static_cast<double>(target_.unit_register_bytes)
                              : static_cast<double>(target_.unit_items) * most * kFullRegisters;
    const auto local = static_cast<double>(std::max(target_.local_bytes, target_.unit_local_bytes));
    double resident = std::floor(static_cast<double>(target_.unit_items) / items);
    const double held = exact ? 4 * launch_.registers : std::max(1.0, launch_.item_bytes);
    const int64_t all = register_items(target_, static_cast<int64_t>(items));
    resident = std::min(resident, std::floor(room / (static_cast<double>(all) * held)));
    if (launch_.local_bytes > 0) {
      resident = std::min(resident, std::floor(local / launch_.local_bytes));
    }
    const double groups = std::ceil(launch_.groups / launch_.units);  // of the busiest unit
    launch_.resident = std::clamp(resident, 1.0, groups);
    launch_.occupancy =
        std::min(1.0, launch_.resident * items / static_cast<double>(target_.unit_items));
    launch_.tail = launch_.groups / target_.units / groups;
  }

  // What crosses the caches' boundaries, of all units together.
  void far() {
    const std::vector<CacheLevel>& caches = nest_.target->caches;
    const int boundaries = std::min<int>(static_cast<int>(caches.size()) - 1, kTlb);
    double fetched = 0, wanted = 0;
    for (const Wide& wide : launch_.accesses) {
      if (wide.where == Where::kGlobal && !wide.written) wanted += wide.useful_bytes();
    }
    for (int b = 0; b < boundaries; ++b) {
      double read = fetched_again(nest_, launch_, static_cast<double>(caches[b].bytes),
                                  caches[b].shared ? target_.units : 1);
      double written = 0;
      for (size_t c = 0; c < analysis_.stages.size(); ++c) {
        const StageCost& cost = analysis_.stages[c];
        if (&root_of(analysis_, cost) != &root_) continue;
        const double workers = std::min<double>(std::max(1, nest_.threads), cost.tasks);
        const double alike = caches[b].shared ? 1 : copied_once_for(nest_, root_.stage, cost.stage);
        for (const Array& array : walk_.stages[c].arrays) {
          if (array.local) continue;
          (array.written ? written : read) += array.moved[b] * kLineBytes * workers / alike;
        }
      }
      if (caches[b].shared) {
        const int root = static_cast<int>(&root_ - analysis_.stages.data());
        const Once least = once(nest_, walk_, root, static_cast<double>(caches[b].bytes));
        read = std::max(read, least.read);
        written = std::max(written, least.written);
      }
      fetched = read;                      // of the last: from memory
      const double units = caches[b + 1].shared ? 1 : target_.units;
      launch_.far_cycles[b] = (read / caches[b + 1].read_bytes_per_cycle +
                               written / caches[b + 1].write_bytes_per_cycle) / units;
    }
    if (wanted > 0) {
      const double missing = std::min(1.0, fetched / (wanted * launch_.groups));
      launch_.latency += far_waits_ * missing * caches.back().latency_cycles;
    }
  }

  void finish() {
    const double groups = std::ceil(launch_.groups / launch_.units);
    const auto most = static_cast<double>(target_.register_bytes);
    const double spilled = std::max(1.0, launch_.item_bytes / most);
    const double issue = launch_.issue * spilled / target_.issue_per_cycle;
    const double bounds[] = {groups * issue, groups * launch_.global, groups * launch_.local,
                             groups * launch_.matrices, groups * launch_.latency / launch_.resident,
                             launch_.far_cycles[0], launch_.far_cycles[1], launch_.far_cycles[2]};
    double largest = 0, sum = 0;
    for (const double bound : bounds) largest = std::max(largest, bound), sum += bound;
    const double cycles = largest + costs(*nest_.target).overlap * (sum - largest);
    launch_.us = cycles / (nest_.target->ghz * 1000);
  }

  const Nest& nest_;
  const Nest& processor_;
  const Analysis& analysis_;
  const Analysis& walk_;
  const SimtTarget& target_;
  const StageCost& root_;
  int shared_ = -1;                        // the root's loop that items share
  std::vector<Dealing> dealings_;          // by the analysis' stages
  double registers_ = 0, own_ = 0;         // bytes
  double far_waits_ = 0;                   // of an item, for what it loads from afar
  Launch launch_;
};

}  // namespace

std::vector<Launch> launches(const Nest& nest, const Nest& processor, const Analysis& analysis) {
  std::vector<Launch> list;
  bool walks = false;
  const Analysis walk = together(processor, analysis, &walks);
  for (const int root : analysis.order) {
    if (!analysis.stages[root].timed) continue;
    list.push_back(Group(nest, processor, analysis, walks ? walk : analysis, root).run());
  }
  return list;
}

Nest as_processor(const Nest& nest) {
  return cpu::as_on_processors(nest, lw::simt(*nest.target).launch_us);
}

std::vector<Launch> launches(const Nest& nest) {
  const Nest processor = as_processor(nest);
  return launches(nest, processor, analyze(processor));
}

}  // namespace lw::cost::simt
