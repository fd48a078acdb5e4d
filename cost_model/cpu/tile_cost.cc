// Register tiles: what one update of a tile issues to which port, for the full tile and for each
// edge instance, and which of them bounds it.
//
// Per update of a tile of r rows by c vectors by u reduction steps:
//   arithmetic   r*c*u steps, plus the body's other operations, each once for all points that
//                agree in the axes it depends on;
//   loads        a vector where an operand follows the lanes, a broadcast element where it does
//                not, `lanes` elements (or a transposed block) where lanes are apart in memory;
//   latency      u dependent steps: too few accumulators wait for each other.
#include <algorithm>
#include <cmath>

#include "cost_model/cpu/analysis.h"
#include "cost_model/cpu/instances.h"
#include "schedules/targets/cpu/cpu_target.h"
#include "schedules/targets/lanes.h"
#include "schedules/window.h"

namespace lw::cost {
namespace {

// How an operand's elements reach the lanes.
enum class Pattern : uint8_t { kBroadcast, kVector, kInterleaved, kTransposed, kStrided, kGather };

struct Operand {
  AxisMask axes;
  Pattern pattern;
  double split = 1;  // vectors that cross a line are loaded twice
  bool epilogue;
  const Access* access = nullptr;
  double stride = 1;
  double pieces = 1;  // that a dot product's group is put together from
  // Another one reads the same so many rows of the tile earlier; -1: none does.
  int shared_axis = -1;
  double rows_apart = 0;
};

class Tiler {
 public:
  Tiler(const Nest& nest, const Analysis& analysis, StageCost& cost)
      : nest_(nest),
        target_(lw::cpu(*nest.target)),
        machine_(costs(*nest.target)),
        stage_(nest.stages[cost.stage]),
        analysis_(analysis),
        cost_(cost) {
    const Type type = nest.program->tensors[stage_.tensor].type;
    const Atom* atom = cost.body.dot != nullptr ? cost.body.dot : multiply_add(*nest.target, type);
    if (atom != nullptr) per_cycle_ = atom->per_cycle, latency_ = atom->latency;
    if (cost.body.dot != nullptr) group_ = cost.body.dot->group;
    vector_ = cost.vector_axis >= 0 ? AxisMask{1} << (cost.vector_axis & 63) : 0;
    for (size_t a = 0; a < stage_.axes.size(); ++a) {
      const bool factored = stage_.factored_axis == static_cast<int>(a);
      if (stage_.axes[a].reduction && !factored) reductions_ |= AxisMask{1} << (a & 63);
    }
  }

  void run() {
    const std::vector<Distribution> sizes = tile_sizes(stage_, cost_, &cost_.instances);
    std::vector<double> full(sizes.size());
    for (size_t a = 0; a < sizes.size(); ++a) full[a] = cost_.box_at(cost_.tile)[a];
    find_window(full);
    for (const Access& access : cost_.body.accesses) operands_.push_back(operand(access, full));
    if (!cost_.body.reduces) find_shared(full);
    times_ = 1;
    for (int l = 0; l < cost_.depth; ++l) times_ *= cost_.trips[l];
    times_ *= share_of_hosts(analysis_, cost_);
    AxisMask unrolled = 0;
    for (size_t a = 0; a < sizes.size(); ++a)
      if (full[a] > 1) unrolled |= AxisMask{1} << (a & 63);
    for (const Multiple& multiple : cost_.body.multiples) {
      const AxisMask within = multiple.axes & unrolled;
      if (within != 0) by_row_.push_back({within, multiple.divisor});
      else updates_that_count_ /= multiple.divisor;
    }
    rows_that_count_ = share_that_counts(~AxisMask{0});
    describe(full);
    std::vector<double> at(sizes.size());
    enumerate(sizes, 0, times_, at, full);
    control();
    const double useful = cost_.updates > 0 ? full_updates_ / cost_.updates : 1;
    cost_.full_share = useful;
    finish();
  }

 private:
  // Of a tile's points that differ in `axes`: those at which conditions leave the term in.
  double share_that_counts(AxisMask axes) const {
    double share = 1;
    for (const Multiple& row : by_row_)
      if ((row.axes & ~axes) == 0) share /= row.divisor;
    return share;
  }

  // The axes along which the access moves within the tile: not along those of which it takes
  // quotients that are constant there.
  AxisMask moving(const Access& access) const {
    AxisMask axes = access.axes;
    if (access.gathers) return axes;
    for (int a = 0; a < cost_.axes(); ++a) {
      bool still = true;
      for (const IndexForm& form : access.dims) {
        for (const IndexForm::Term& term : form.terms) {
          if (term.axis != a) continue;
          still = still && term.divisor > 1 && keeps_quotient(stage_, a, term.divisor);
        }
      }
      if (still) axes &= ~(AxisMask{1} << (a & 63));
    }
    return axes;
  }

  Operand operand(const Access& access, const std::vector<double>& full) const {
    Operand result{moving(access), Pattern::kBroadcast, 1, access.epilogue, &access};
    const bool dot = group_ > 1 && !access.epilogue;
    double along = 1;                      // the reduction of a dot product
    if (dot) along = std::abs(storage_stride(nest_, analysis_, cost_, access, stage_.dot_axis));
    if (dot && along != 1) result.pieces = group_;
    if ((result.axes & vector_) == 0) return result;
    double stride = storage_stride(nest_, analysis_, cost_, access, cost_.vector_axis);
    if (dot && along == 1 && std::abs(stride) == group_) stride = 1;
    else if (dot) result.pieces = group_;
    if (access.gathers) {
      result.pattern = Pattern::kGather;
    } else if (std::abs(stride) <= 1) {
      result.pattern =
          stride == 0 ? Pattern::kGather : Pattern::kVector;  // 0: quotients of a fused axis
      if (stride == 0 && !stage_.axis_value.empty()) result.pattern = Pattern::kVector;
      result.split = line_split(access);
    } else if (access.guarded || masked(full)) {
      result.pattern = Pattern::kGather;  // lanes that are off must not be touched
    } else {
      result.stride = std::abs(stride);
      result.pattern = result.stride <= 4 ? Pattern::kInterleaved : Pattern::kStrided;
      for (int a = 0; a < cost_.axes(); ++a) {
        const bool unrolled = a != cost_.vector_axis && full[a] >= cost_.lanes;
        if (!unrolled || (result.axes >> (a & 63) & 1) == 0) continue;
        if (std::abs(storage_stride(nest_, analysis_, cost_, access, a)) == 1)
          result.pattern = Pattern::kTransposed;
      }
    }
    return result;
  }

  // Whether points of a full tile are masked: by a narrow last vector, or a tail that keeps one
  // instance.
  bool masked(const std::vector<double>& full) const {
    const int64_t rest = static_cast<int64_t>(full[cost_.vector_axis]) % cost_.lanes;
    if (target_.masks && (rest & (rest - 1)) != 0) return true;
    return masked_axes(stage_, cost_) != 0;
  }

  // Places along the lanes, of a tile of that size, at which an access takes vectors that overlap.
  double taps(const Access& access, const double* size) const {
    if (access.gathers || access.dims.empty() || cost_.vector_reduces) return 1;
    return overlapping(access.dims.back(), cost_.vector_axis, reductions_, size, cost_.lanes);
  }

  double line_split(const Access& access) const {
    const double places = taps(access, cost_.box_at(0));
    const double lines = target_.vector_bytes / kLineBytes;
    if (places > 1) return 1 + lines * machine_.crossing_loads * (1 - 1 / places);
    // The neighbour of what a map of a grid computes.
    const IndexForm* last = access.dims.empty() ? nullptr : &access.dims.back();
    const bool beside = last != nullptr && last->terms.size() == 1 && !cost_.body.reduces &&
                        last->constant % cost_.lanes != 0;
    if (beside) return 1 + lines * machine_.crossing_loads;
    for (const Array& array : cost_.arrays) {
      if (array.tensor != access.tensor || array.written) continue;
      if (array.local || array.row_stride_bytes <= 0) return 1;
      return std::fmod(array.row_stride_bytes, target_.vector_bytes) == 0
                 ? 1
                 : 1 + lines * machine_.unaligned_loads;
    }
    return 1;
  }

  // Vectors that `points` lanes take; the lanes they have.
  double chunks(double points) const {
    if (cost_.vector_axis < 0) return 1;
    return static_cast<double>(vectors_for(register_file(*nest_.target),
                                           static_cast<int64_t>(std::ceil(points)), cost_.lanes,
                                           cost_.vector_reduces, begins_anywhere(stage_)));
  }

  // Points of the axes in `mask` (vectors of the vector axis).
  double count(AxisMask mask, const std::vector<double>& size) const {
    double n = 1;
    for (size_t a = 0; a < size.size(); ++a) {
      if ((mask >> (a & 63) & 1) == 0) continue;
      if (group_ > 1 && static_cast<int>(a) == stage_.dot_axis) {
        n *= std::ceil(size[a] / group_);
        continue;
      }
      n *= static_cast<int>(a) == cost_.vector_axis ? chunks(size[a]) : size[a];
    }
    return n;
  }

  // The share of the points in the tile at which the operand is at a place of its own, where
  // windows overlap and are loaded so.
  double distinct(const Operand& o, const std::vector<double>& size) const {
    if (o.shared_axis >= 0) return std::min(1.0, o.rows_apart / size[o.shared_axis]);
    if (!window_ || o.access->gathers || o.pieces > 1) return 1;
    double share = 1;
    for (const IndexForm& form : o.access->dims) {
      double places = 1, points = 1;
      for (const IndexForm::Term& term : form.terms) {
        if (term.axis == cost_.vector_axis) continue;
        places += std::abs(term.coefficient()) * (size[term.axis] - 1);
        points *= size[term.axis];
      }
      share *= std::min(1.0, places / points);
    }
    return share;
  }

  // Of a map whose tile has several rows: reads of one tensor that lie rows of it apart.
  void find_shared(const std::vector<double>& full) {
    for (int a = 0; a < cost_.axes(); ++a) {
      if (full[a] < 2 || a == cost_.vector_axis) continue;
      for (Operand& o : operands_) {
        for (const Operand& other : operands_) {
          const double rows = rows_between(*other.access, *o.access, a);
          if (rows <= 0 || (o.shared_axis == a && rows >= o.rows_apart)) continue;
          o.shared_axis = a;
          o.rows_apart = rows;
        }
      }
    }
  }

  // Of the full tile.
  void find_window(const std::vector<double>& full) {
    if (!cost_.body.reduces || cost_.vector_reduces || group_ > 1) return;
    const bool together = std::any_of(
        cost_.body.accesses.begin(), cost_.body.accesses.end(), [](const Access& access) {
          return std::any_of(access.dims.begin(), access.dims.end(),
                             [](const IndexForm& form) { return form.terms.size() > 1; });
        });
    if (!together) return;
    std::vector<int64_t> points;
    for (size_t a = 0; a < full.size(); ++a) {
      const bool lanes = static_cast<int>(a) == cost_.vector_axis;
      points.push_back(static_cast<int64_t>(lanes ? chunks(full[a]) : full[a]));
    }
    const bool unrolls = count(reductions_, full) > 1;
    if (!unrolls || stage_.factored_axis >= 0) return;
    window_ = window_of(nest_, cost_.stage, read_steps(nest_, cost_.stage), points,
                        cost_.vector_axis);
  }

  void add_operands(bool epilogue, AxisMask within, const std::vector<double>& size,
                    Mix& mix) const {
    for (const Operand& o : operands_) {
      if (o.epilogue != epilogue) continue;
      const double lanes = cost_.lanes;
      const double share =
          epilogue ? 1 : std::min(distinct(o, size), share_that_counts(o.axes & within));
      const double n = o.pieces * count(o.axes & within, size) * share;
      if (o.pieces > 1) mix.shuffles += n, mix.issue += n;
      switch (o.pattern) {
        case Pattern::kBroadcast: mix.loads += n, mix.issue += n; break;
        case Pattern::kVector: {
          const double together = stage_.slide && !epilogue ? taps(*o.access, size.data()) : 1;
          const double slid = n * (1 - 1 / together);
          const double loaded = together > 1 ? n / together * (1 + 1 / cost_.columns) : n * o.split;
          mix.loads += loaded, mix.shuffles += slid, mix.issue += loaded + slid;
          break;
        }
        case Pattern::kInterleaved:
          mix.loads += n * o.stride, mix.shuffles += n * o.stride, mix.issue += 2 * n * o.stride;
          break;
        case Pattern::kTransposed:
          mix.loads += n, mix.shuffles += n * std::log2(lanes),
              mix.issue += n * (1 + std::log2(lanes));
          break;
        case Pattern::kStrided:
          mix.loads += n * lanes, mix.shuffles += n * lanes, mix.issue += 2 * n * lanes;
          break;
        case Pattern::kGather:
          mix.loads += machine_.gather_loads * n * lanes;
          mix.issue += machine_.gather_loads * n * lanes;
          break;
      }
    }
    for (const Ops& ops : cost_.body.ops) {
      if (ops.epilogue != epilogue) continue;
      const double slots = ops.slots * count(ops.axes & within, size);
      mix.arithmetic += slots, mix.issue += slots;
    }
  }

  void add_stores(AxisMask within, const std::vector<double>& size, Mix& mix) const {
    for (const Array& array : cost_.arrays) {
      if (!array.written) continue;
      const bool lanes_follow = cost_.vector_axis >= 0 && !cost_.vector_reduces;
      const double n = count(within, size);
      const double apart = lanes_follow && !contiguous_store(array) ? cost_.lanes : 1;
      mix.stores += n * apart, mix.issue += n * apart * (apart > 1 ? 2 : 1);
      if (array.read_back) mix.loads += n * apart, mix.arithmetic += n, mix.issue += 2 * n * apart;
    }
  }

  bool contiguous_store(const Array& array) const {
    if (stage_.copy_of >= 0 && stage_.block > 0) return stage_.block_dim == cost_.vector_axis;
    if (!stage_.axis_value.empty()) return true;
    const size_t rank = nest_.program->tensors[array.tensor].shape.size();
    const Tensor& own = nest_.program->tensors[stage_.tensor];
    const bool shifted =
        stage_.factored_axis >= 0 && stage_.axes.size() < own.axes.size() + own.reduce_axes.size();
    return cost_.vector_axis == static_cast<int>(rank) - 1 - shifted;
  }

  Mix update_mix(const std::vector<double>& size) const {
    Mix mix;
    add_operands(false, ~AxisMask{0}, size, mix);
    if (cost_.body.reduces) {
      const double steps = count(~AxisMask{0}, size) * rows_that_count_;
      mix.arithmetic += steps, mix.issue += steps;
    } else {
      add_operands(true, ~AxisMask{0}, size, mix);
      add_stores(~AxisMask{0}, size, mix);
    }
    // Accumulators that do not fit are stored and loaded again.
    const double spilled = std::max(0.0, wanted(size) - target_.vector_registers);
    mix.loads += spilled, mix.stores += spilled;
    mix.issue += 2 * spilled + machine_.loop_slots +
                 machine_.address_slots * static_cast<double>(operands_.size());
    return mix;
  }

  Mix finish_mix(const std::vector<double>& size) const {
    Mix mix;
    const AxisMask spatial = cost_.vector_reduces ? ~(reductions_ | vector_) : ~reductions_;
    const double points = count(spatial, size);
    if (cost_.vector_reduces) {
      const double parts = chunks(size[cost_.vector_axis]);
      // Vectors are combined pair by pair into one (two shuffles and an operation each), up to as
      // many as there are lanes; that one is folded.
      const double together = std::min(points, static_cast<double>(cost_.lanes));
      const double folds = std::log2(cost_.lanes / together);
      const double steps = points / together * (together - 1 + folds);
      mix.shuffles += 2 * steps;
      mix.arithmetic += points * (parts - 1) + steps;
      mix.issue += points * parts + 3 * steps;
    }
    add_operands(true, spatial, size, mix);
    add_stores(spatial, size, mix);
    mix.issue += points;  // accumulators are set to the identity
    return mix;
  }

  double wanted(const std::vector<double>& size) const {
    if (!cost_.body.reduces) return 0;
    if (window_) return static_cast<double>(window_->registers);
    const double columns = cost_.vector_axis >= 0 ? chunks(size[cost_.vector_axis]) : 1;
    const double rows = count(~(reductions_ | vector_), size);
    return rows * columns + (rows == 1 || columns == 1 ? 1 : std::min(rows, columns)) +
           (target_.fma ? 1 : 2);
  }

  double issue_rate(double slots) const {
    return slots * cost_.instances > machine_.decoded_slots
               ? std::min(machine_.undecoded_issue, target_.issue_per_cycle)
               : target_.issue_per_cycle;
  }

  double bound(const Mix& mix, double latency) const {
    const double memory = std::max(mix.loads / target_.loads_per_cycle,
                                   mix.stores / target_.stores_per_cycle);
    const double others = std::max({mix.arithmetic / per_cycle_,
                                    (mix.arithmetic + 2 * mix.shuffles) / (2 * per_cycle_),
                                    mix.shuffles, mix.issue / issue_rate(cost_.body_slots),
                                    latency});
    // The less of the two is not hidden altogether.
    return std::max(memory, others) + machine_.port_overlap * std::min(memory, others);
  }

  double latency(const std::vector<double>& size) const {
    if (!cost_.body.reduces) return 0;
    const AxisMask chain = reductions_ & ~vector_;
    return latency_ * count(chain, size);
  }

  void describe(const std::vector<double>& full) {
    cost_.rows = count(~(reductions_ | vector_), full);
    cost_.columns = cost_.vector_axis >= 0 ? chunks(full[cost_.vector_axis]) : 1;
    cost_.depth_unroll = count(reductions_ & ~vector_, full);
    cost_.registers = wanted(full);
    if (cost_.vector_axis >= 0)
      cost_.lanes_used = full[cost_.vector_axis] / (cost_.columns * cost_.lanes);
    const Mix mix = update_mix(full);
    cost_.body_slots = mix.issue;
    cost_.latency_bound = latency(full);
    cost_.port_bound = mix.arithmetic / per_cycle_;
    cost_.load_bound = mix.loads / target_.loads_per_cycle;
    cost_.update_cycles = bound(mix, cost_.latency_bound);
  }

  void enumerate(const std::vector<Distribution>& sizes, size_t a, double times,
                 std::vector<double>& at, const std::vector<double>& full) {
    if (a == sizes.size()) return add_instance(at, times, at == full);
    for (const Sizes& s : sizes[a]) {
      at[a] = s.size;
      enumerate(sizes, a + 1, times * s.count, at, full);
    }
  }

  // `times` updates of a tile of these sizes.
  void add_instance(const std::vector<double>& size, double times, bool full) {
    const Mix update = update_mix(size);
    const double finished = times;
    times *= updates_that_count_;
    add(update, times);
    cost_.updates += times;
    if (full) full_updates_ += times;
    update_cycles_ += times * bound(update, latency(size));
    cost_.arithmetic_cycles += times * update.arithmetic / per_cycle_;
    cost_.load_cycles += times * update.loads / target_.loads_per_cycle;
    cost_.store_cycles += times * update.stores / target_.stores_per_cycle;
    cost_.issue_cycles += times * update.issue / target_.issue_per_cycle;
    if (!cost_.body.reduces) return;
    double steps = 1;  // updates between a tile's start and its finish
    for (int l = cost_.run; l < cost_.tile; ++l) steps *= cost_.trips[l];
    const Mix finish = finish_mix(size);
    const double finishes = finished / steps;
    add(finish, finishes);
    cost_.finishes += finishes;
    finish_cycles_ += finishes * (bound(finish, 0) + machine_.run_start);
  }

  void add(const Mix& mix, double times) {
    cost_.mix.arithmetic += times * mix.arithmetic;
    cost_.mix.shuffles += times * mix.shuffles;
    cost_.mix.loads += times * mix.loads;
    cost_.mix.stores += times * mix.stores;
    cost_.mix.issue += times * mix.issue;
  }

  void control() {
    double times = times_;
    for (int l = cost_.depth; l < cost_.tile; ++l) {
      times *= cost_.trips[l];
      const Loop& loop = stage_.loops[l - cost_.depth];
      const bool fused = loop.parts.size() > 1;
      if (cost_.trips[l] > 1)
        cost_.loop_cycles += times * (loop.kind == LoopKind::kParallel ? machine_.task_cycles
                                      : fused               ? machine_.fused_loop_cycles
                                      : l + 1 == cost_.tile ? 0
                                                            : machine_.iteration_cycles);
    }
    cost_.loop_cycles +=
        cost_.updates * cost_.body.branches * cost_.rows * machine_.branch_cycles;
    if (stage_.place == Place::kAt) cost_.loop_cycles += times_ * wait_for_stores();
  }

  // What a stage stores for its host a moment before it is read: parts of vectors are not forwarded
  // to loads of whole ones, which wait until the stores have reached the cache.
  double wait_for_stores() const {
    if (cost_.vector_axis < 0 || cost_.vector_reduces) return 0;
    const double* box = cost_.box_at(cost_.depth);
    if (std::fmod(box[cost_.vector_axis], cost_.lanes) == 0) return 0;
    const double stores = count(~AxisMask{0}, std::vector<double>(box, box + cost_.axes()));
    return std::max(0.0, machine_.store_wait - stores);
  }

  void finish() { cost_.compute_cycles = update_cycles_ + finish_cycles_ + cost_.loop_cycles; }

  const Nest& nest_;
  const CpuTarget& target_;
  const Costs& machine_;
  const Stage& stage_;
  const Analysis& analysis_;
  StageCost& cost_;
  double per_cycle_ = 2, latency_ = 4;
  double group_ = 1;  // reduction steps that one instruction takes
  AxisMask vector_ = 0, reductions_ = 0;
  absl::InlinedVector<Operand, 4> operands_;
  std::optional<Window> window_;
  absl::InlinedVector<Multiple, 2> by_row_;  // conditions that differ within the tile
  double rows_that_count_ = 1, updates_that_count_ = 1;  // where conditions leave terms out
  double times_ = 1, full_updates_ = 0, update_cycles_ = 0, finish_cycles_ = 0;
};

}  // namespace

void cost_tiles(const Nest& nest, Analysis& analysis) {
  for (StageCost& cost : analysis.stages) Tiler(nest, analysis, cost).run();
}

}  // namespace lw::cost
