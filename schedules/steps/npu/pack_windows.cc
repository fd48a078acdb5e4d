// pack_windows(Y, r, s, ci; 2)
//   before  r: 7            after  ci: 147
//             s: 7
//               ci: 3
// A convolution on an NPU: of the loops named, those over a window from its outermost axis to its
// channels, so many as the number become one with the last, whose name it keeps. Windows, or rows
// of one, are then rows of the array's operand, which MX.COL packs where they do not lie so: few
// channels use all of its rows.
//
// The domain holds 0, and the numbers by which a window takes fewer instructions, of which the
// memories have room for one.
#include <algorithm>

#include "schedules/legality.h"
#include "schedules/npu/vector.h"
#include "schedules/npu/windows.h"
#include "schedules/targets/npu/npu_target.h"
#include "src/base/check.h"
#include "src/base/message.h"

namespace lw {
namespace {

constexpr int kLeastNames = 3, kMostNames = 4;  // a stage's and its loops'

absl::StatusOr<int> whole_sum(const Stage& s, const std::string& name) {
  ASSIGN_OR_RETURN(const int position, loop_position(s, name));
  const Loop& loop = s.loops[position];
  const bool whole = is_plain(loop) && trips(s, position) == s.axes[loop.parts[0].axis].extent;
  if (!whole || !is_reduction(s, loop)) {
    return infeasible(concat(name, " does not run over all of a sum"));
  }
  return loop.parts[0].axis;
}

absl::Status apply_pack_windows(Nest& nest, const Step& step) {
  RETURN_IF_ERROR(expect(step, {kLeastNames, kMostNames, 1, 1}));
  ASSIGN_OR_RETURN(const int stage, target_stage(nest, step));
  Stage& s = nest.stages[stage];
  const std::optional<NpuProduct> product = product_of(nest, stage);
  if (!product) return infeasible(no_product(nest, stage));
  if (!product->window.empty()) return infeasible("windows are packed once");
  const int last = static_cast<int>(step.names.size()) - 1;
  const int64_t number = step.numbers[0];
  if (number < 0 || number >= last) {
    return infeasible(concat(number, " loops of the ", last - 1, " outside ", step.names[last]));
  }
  std::vector<int> axes;
  for (int n = 1; n <= last; ++n) {
    ASSIGN_OR_RETURN(const int axis, whole_sum(s, step.names[n]));
    if (std::find(axes.begin(), axes.end(), axis) != axes.end()) {
      return infeasible(concat(step.names[n], " is named twice"));
    }
    axes.push_back(axis);
  }
  for (const Stage& other : nest.stages) {
    if (other.place == Place::kAt && other.host == stage) {
      return infeasible(concat(other.name, " stands at loop ", other.loop));
    }
  }
  if (axes.back() != product->sum) {
    return infeasible(concat("windows end along ", s.axes[product->sum].name, ", not ",
                             step.names[last]));
  }
  for (int64_t n = 0; n < number; ++n) {
    // From the outermost on: what it becomes is the outer one of the next two.
    const size_t at = axes.size() - 1 - static_cast<size_t>(number - n);
    const int outer = axes[at], inner = axes[at + 1];
    s.loops.erase(s.loops.begin() + find_loop(s, step.names[at + 1]));
    s.loops[find_loop(s, step.names[at + 2])].parts[0].axis = outer;
    fuse_axes(s, outer, inner);
    for (int& axis : axes) axis -= axis > inner;
    axes[at + 1] = axes[at];
  }
  if (number == 0) return absl::OkStatus();
  const std::optional<NpuProduct> packed = product_of(nest, stage);
  if (!packed) {
    return infeasible(concat("windows lie otherwise than they are packed: ", step.names[last],
                             " innermost, and weights of a window in one piece"));
  }
  if (const std::string why = no_packing(*packed); packed->packs && !why.empty()) {
    return infeasible(concat("one instruction does not pack ", why));
  }
  return check_legal(nest, stage);
}

// Instructions along the sums of one result.
int64_t folds(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  const NpuProduct product = *product_of(nest, stage);
  const int64_t rows = npu_config(*nest.target).mx.rows;
  int64_t folds = 1;
  for (int a = 0; a < static_cast<int>(s.axes.size()); ++a) {
    if (product.roles[a] != AxisRole::kSum) continue;
    const int64_t extent = s.axes[a].extent;
    folds *= a == product.sum ? (extent + rows - 1) / rows : extent;
  }
  return folds;
}

// Whether the memories have room for what one instruction along rows and columns takes, all sums.
bool has_room(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  const NpuProduct product = *product_of(nest, stage);
  const npu::Config& config = npu_config(*nest.target);
  std::vector<int64_t> tile;
  for (const NestAxis& axis : s.axes) tile.push_back(axis.reduction ? axis.extent : 1);
  if (product.row >= 0) tile[product.row] = std::min(config.mx.rows, s.axes[product.row].extent);
  if (product.column >= 0) {
    tile[product.column] = std::min(config.mx.columns, s.axes[product.column].extent);
  }
  const absl::StatusOr<std::optional<VectorCode>> finish = epilogue_code(nest, stage);
  if (!finish.ok()) return false;
  VectorBytes bytes;
  if (finish->has_value()) bytes = vector_room(config, **finish, tile).with(1);
  bytes.spm += operand_bytes(config, product, false, tile) +
               operand_bytes(config, product, true, tile);
  bytes.acc += result_bytes(config, product, tile);
  return fits(config, bytes);
}

std::vector<Decision> pack_windows_domain(const Nest& nest, const Step& step) {
  std::vector<Decision> domain;
  int64_t plain = 0;
  for (int64_t number = 0; number + 1 < static_cast<int64_t>(step.names.size()); ++number) {
    Nest next = nest;
    Step one = step;
    one.numbers = {number};
    if (!apply_pack_windows(next, one).ok()) continue;
    const int64_t count = folds(next, *target_stage(next, step));
    if (number == 0) plain = count;
    if (number > 0 && (count >= plain || !has_room(next, *target_stage(next, step)))) continue;
    domain.push_back(one.numbers);
  }
  return domain;
}

}  // namespace

const StepKind& pack_windows() {
  static constexpr StepKind kind = {"pack_windows", 1, apply_pack_windows, pack_windows_domain,
                                    "npu"};
  return kind;
}

}  // namespace lw
