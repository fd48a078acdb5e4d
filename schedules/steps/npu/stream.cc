// stream(C, i.0.0, j.0.0, k.0.0; 0, 2, 2, 2, 0)
//   before  i.0.0: 2        after  i.0.0: 2
//             j.0.0: 8               j.0.0: 8               C held at j.0.0, x2
//               k.0.0: 2               k.0.0: 2              A.tile and B.tile at k.0.0, x2
//                 ...                    ...
// A product on an NPU whose tiles block_tile has cut: the loops over tiles, three or four, take the
// order of permutation number `order` of the names as listed (as in reorder); both operands are
// copied into SPM where the innermost loop that moves them begins, and results stand in ACC while no
// loop outside adds to them. The numbers: the order, the slots of a, b and the results, the
// instruction.
//
// The domain holds what the memories have room for: copies and results of several slots overlap
// with what the array computes.
#include <algorithm>
#include <numeric>

#include "schedules/domains.h"
#include "schedules/legality.h"
#include "schedules/npu/product.h"
#include "schedules/npu/vector.h"
#include "schedules/targets/npu/machine.h"
#include "schedules/targets/npu/npu_target.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/expr.h"

namespace lw {
namespace {

constexpr int kLeastNamed = 3, kMostNamed = 4, kNumbers = 5;
constexpr int64_t kMostSlots = 3;

using Order = std::vector<int>;  // which of the names stands at each position

int64_t orders_of(size_t names) { return names == kLeastNamed ? 6 : 24; }

Order order_of(int64_t index, size_t names) {
  Order order(names);
  std::iota(order.begin(), order.end(), 0);
  for (int64_t i = 0; i < index; ++i) std::next_permutation(order.begin(), order.end());
  return order;
}

// What the step makes of the stage's loops.
struct Plan {
  std::vector<Loop> loops;
  int depth[2];                  // of the copies of a, b: loops outside
  int held;                      // loops outside the results
  int64_t bytes[2], held_bytes;  // of a slot
  std::vector<int64_t> kept;     // extents of the results that are held
};

class Streams {
 public:
  static absl::StatusOr<Streams> of(const Nest& nest, const Step& step) {
    ASSIGN_OR_RETURN(const int stage, target_stage(nest, step));
    const Stage& s = nest.stages[stage];
    if (s.variant < 0) return infeasible(concat(s.name, " has no tile of instructions"));
    std::optional<NpuProduct> product = product_of(nest, stage);
    if (!product) return infeasible(concat(s.name, " is no product that the array computes"));
    ASSIGN_OR_RETURN(std::optional<VectorCode> epilogue, epilogue_code(nest, stage));
    Streams streams = {nest, stage, *std::move(product), std::move(epilogue)};
    for (size_t n = 1; n < step.names.size(); ++n) {
      ASSIGN_OR_RETURN(const int position, loop_position(s, step.names[n]));
      if (!streams.positions_.empty() && position <= streams.positions_.back()) {
        return infeasible("the loops are not listed as they stand");
      }
      streams.positions_.push_back(position);
    }
    if (streams.positions_.back() >= tile_begin(s)) {
      return infeasible("loops of an instruction stay");
    }
    return streams;
  }

  Plan plan(int64_t order) const {
    Plan plan;
    const Stage& s = nest_.stages[stage_];
    plan.loops = s.loops;
    const Order names = order_of(order, positions_.size());
    for (size_t n = 0; n < names.size(); ++n) {
      plan.loops[positions_[n]] = s.loops[positions_[names[n]]];
    }
    Stage ordered = s;
    ordered.loops = plan.loops;
    const int tiles = positions_.back() + 1;  // loops over tiles: all up to the last of those named
    const npu::Config& config = npu_config(*nest_.target);
    for (const bool b : {false, true}) {
      plan.depth[b] = innermost(ordered, tiles, b ? product_.b_steps : product_.a_steps);
      plan.bytes[b] =
          operand_bytes(config, product_, b, inner_extents(ordered, plan.depth[b]));
    }
    plan.held = tiles;
    for (int l = tiles; l-- > 0;) {
      if (is_reduction(ordered, ordered.loops[l]) && trips(ordered, l) > 1) plan.held = l;
    }
    plan.kept = inner_extents(ordered, plan.held);
    plan.held_bytes = result_bytes(config, product_, plan.kept);
    return plan;
  }

  bool fits(const Plan& plan, const Decision& numbers) const {
    const npu::Config& config = npu_config(*nest_.target);
    VectorBytes bytes;
    if (epilogue_) {
      bytes = vector_room(config, *epilogue_, result_box(product_, plan.kept)).with(numbers[3]);
    }
    bytes.spm += plan.bytes[0] * numbers[1] + plan.bytes[1] * numbers[2];
    bytes.acc += plan.held_bytes * numbers[3];
    return lw::fits(config, bytes);
  }

  // Orders that differ from an earlier one only by loops of one iteration are left out.
  std::vector<int64_t> orders() const {
    const Stage& s = nest_.stages[stage_];
    std::vector<int64_t> orders;
    std::vector<std::vector<int>> known;
    for (int64_t order = 0; order < orders_of(positions_.size()); ++order) {
      std::vector<int> running;
      for (const int n : order_of(order, positions_.size())) {
        if (trips(s, positions_[n]) > 1) running.push_back(n);
      }
      if (std::find(known.begin(), known.end(), running) != known.end()) continue;
      known.push_back(std::move(running));
      orders.push_back(order);
    }
    return orders;
  }

  // An output-stationary product takes as many rows as the array has, and weights along the
  // columns.
  bool has_output_stationary() const {
    const Stage& s = nest_.stages[stage_];
    const npu::Config& config = npu_config(*nest_.target);
    if (!config.mx.output_stationary) return false;
    const std::vector<int64_t> block = inner_extents(s, tile_begin(s));
    int rows = 0;  // axes of them that an instruction has
    for (size_t a = 0; a < block.size(); ++a) {
      if (product_.roles[a] == AxisRole::kRow && block[a] > 1) ++rows;
      if (product_.roles[a] == AxisRole::kRow && block[a] > config.mx.rows) return false;
      // One column too: it is padded.
      const bool columns = product_.roles[a] == AxisRole::kColumn &&
                           (block[a] > 1 || static_cast<int>(a) == product_.column);
      if (columns && product_.b_steps.back()[a] != 1) return false;
    }
    return rows <= 1;
  }

  size_t names() const { return positions_.size(); }
  int stage() const { return stage_; }
  const NpuProduct& product() const { return product_; }

 private:
  Streams(const Nest& nest, int stage, NpuProduct product, std::optional<VectorCode> epilogue)
      : nest_(nest),
        stage_(stage),
        product_(std::move(product)),
        epilogue_(std::move(epilogue)) {}

  // Loops outside the place where the operand is copied: up to the innermost, of those over tiles,
  // that moves it.
  static int innermost(const Stage& s, int tiles, const std::vector<std::vector<int64_t>>& steps) {
    for (int l = tiles; l-- > 0;) {
      if (trips(s, l) == 1) continue;
      for (const LoopPart& part : s.loops[l].parts) {
        for (const std::vector<int64_t>& dim : steps) {
          if (dim[part.axis] != 0) return l + 1;
        }
      }
    }
    return 0;
  }

  const Nest& nest_;
  int stage_;
  NpuProduct product_;
  std::optional<VectorCode> epilogue_;
  std::vector<int> positions_;  // of the loops named, ascending
};

Stage make_tile(const Nest& nest, int tensor, int64_t slots) {
  const Tensor& source = nest.program->tensors[tensor];
  Stage tile;
  tile.tensor = tile.copy_of = tensor;
  tile.memory = kNpuSpm;
  tile.slots = static_cast<int>(slots);
  for (int n = 1; tile.name.empty() || find_stage(nest, tile.name) >= 0; ++n) {
    tile.name = n == 1 ? concat(source.name, ".tile") : concat(source.name, ".tile", n);
  }
  for (size_t d = 0; d < source.shape.size(); ++d) {
    const std::string name = concat("d", d);
    tile.axes.push_back({name, source.shape[d], false});
    tile.loops.push_back({name, {{static_cast<int>(d), 1}}, LoopKind::kSerial, Tail::kCompose});
  }
  return tile;
}

absl::Status apply_stream(Nest& nest, const Step& step) {
  RETURN_IF_ERROR(expect(step, {kLeastNamed + 1, kMostNamed + 1, kNumbers, kNumbers}));
  ASSIGN_OR_RETURN(const Streams streams, Streams::of(nest, step));
  const Decision& numbers = step.numbers;
  const int variant = static_cast<int>(numbers[4]);
  if (numbers[0] < 0 || numbers[0] >= orders_of(streams.names())) {
    return infeasible(concat("no order ", numbers[0]));
  }
  for (const int n : {1, 2, 3}) {
    if (numbers[n] < 1 || numbers[n] > kMostSlots) return infeasible(concat(numbers[n], " slots"));
  }
  if (variant != kNpuWeightStationary &&
      (variant != kNpuOutputStationary || !streams.has_output_stationary())) {
    return infeasible(concat("no instruction ", variant, " for the tile"));
  }
  const Plan plan = streams.plan(numbers[0]);
  if (!is_dense(streams.product(), plan.kept)) {
    return infeasible("a loop over results that do not touch runs inside those that are held");
  }
  if (!streams.fits(plan, numbers)) {
    return infeasible(concat("the memories have no room for ", plan.bytes[0], " x ", numbers[1],
                             " + ", plan.bytes[1], " x ", numbers[2], " bytes of operands and ",
                             plan.held_bytes, " x ", numbers[3], " of results"));
  }
  int stage = streams.stage();
  const std::string name = nest.stages[stage].name;
  const int tensors[2] = {streams.product().a->index, streams.product().b->index};
  nest.stages[stage].loops = plan.loops;
  nest.stages[stage].variant = variant;
  nest.stages[stage].slots = static_cast<int>(numbers[3]);
  nest.stages[stage].held = plan.held > 0 ? plan.loops[plan.held - 1].name : "";
  for (const int b : {0, 1}) {
    if (b == 1 && tensors[1] == tensors[0]) return infeasible("a product of a tensor with itself");
    Stage tile = make_tile(nest, tensors[b], numbers[1 + b]);
    if (plan.depth[b] > 0) {
      tile.place = Place::kAt;
      tile.host = stage;
      tile.loop = plan.loops[plan.depth[b] - 1].name;
    }
    // Before its reader, whose number grows by one.
    insert_stage(nest, stage, std::move(tile));
    if (plan.depth[b] > 0) nest.stages[stage].host = stage + 1;
    nest.stages[stage + 1].copies.push_back({tensors[b], stage});
    stage = find_stage(nest, name);
  }
  return check_legal(nest, stage);
}

std::vector<Decision> stream_domain(const Nest& nest, const Step& step) {
  if (step.names.size() <= kLeastNamed || step.names.size() > kMostNamed + 1) return {};
  const absl::StatusOr<Streams> streams = Streams::of(nest, step);
  if (!streams.ok()) return {};
  const int64_t variants = streams->has_output_stationary() ? 2 : 1;
  std::vector<Decision> domain;
  for (const int64_t order : streams->orders()) {
    const Plan plan = streams->plan(order);
    if (!is_dense(streams->product(), plan.kept)) continue;
    for (int64_t a = 1; a <= kMostSlots; ++a) {
      for (int64_t b = 1; b <= kMostSlots; ++b) {
        for (int64_t held = 1; held < kMostSlots; ++held) {
          if (!streams->fits(plan, {order, a, b, held})) continue;
          for (int64_t variant = 0; variant < variants; ++variant) {
            domain.push_back({order, a, b, held, variant});
          }
        }
      }
    }
  }
  return domain;
}

}  // namespace

const StepKind& stream() {
  static constexpr StepKind kind = {"stream", 1, apply_stream, stream_domain, "npu"};
  return kind;
}

}  // namespace lw
