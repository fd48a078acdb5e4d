// block_tile(C, i, j, k; 4, 2, 8, 64)
//   before  i: 512          after  i.0.0: 2 of 256
//             j: 512                 j.0.0: 8 of 64
//               k: 512                 k.0.0: 2 of 256
//                                        i.0.1: 4 of 64
//                                          j.0.1: 2 of 32
//                                            k.0.1: 8 of 32
//                                              unroll i.1: 64, j.1: 32, k.1: 32
// A product on an NPU: the loops named, of a row, a column and a sum, are cut into tiles whose
// operands and results lie in the machine's memories, and these into what one instruction computes,
// as many columns and sums as the array has. The numbers are instructions of a tile along each, and
// rows of an instruction. Of loops that are not named those of sums run inside a tile, others
// outside.
//
// block_tile(C, y, x, co, ci; 7, 1, 2, 4, 28) has a second loop of rows, as a picture has: all of
// its points in a tile, the first number, are rows of each instruction, 28 of x for each of 7 of y.
//
// The domain holds the tiles of which the memories have room for one, of aligned instructions: rows
// of an instruction from the array's, below which it waits for weights, in powers of two.
#include <algorithm>
#include <array>

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

constexpr int kRow = 0, kColumn = 1, kSum = 2, kNamed = 3;
constexpr AxisRole kRoles[] = {AxisRole::kRow, AxisRole::kColumn, AxisRole::kSum};
constexpr const char* kRoleNames[] = {"rows", "columns", "sums"};
constexpr int64_t kMostRows = 2048;  // of an instruction
constexpr int64_t kMostOuter = 255;  // blocks of rows, of an instruction

struct Axes {
  NpuProduct product;
  std::optional<VectorCode> epilogue;
  int stage;
  int outer;                     // of the stage: that of the second loop of rows; -1: none
  int64_t outer_extent;
  std::array<int, kNamed> axis;  // of the stage
  std::array<int64_t, kNamed> extent;
  std::array<std::string, kNamed> name;
  std::vector<int64_t> tile;     // extents of all axes in one, but for those that are named
};

// Whether the step names a second loop of rows, before the others.
bool has_outer(const Step& step) { return step.names.size() == kNamed + 2; }

absl::StatusOr<int> named_axis(const Nest& nest, const Axes& axes, const std::string& name,
                               int role) {
  const Stage& s = nest.stages[axes.stage];
  ASSIGN_OR_RETURN(const int position, loop_position(s, name));
  const Loop& loop = s.loops[position];
  if (!is_plain(loop)) {
    return infeasible(concat(name, " does not run over single points of one axis"));
  }
  const int axis = loop.parts[0].axis;
  if (axes.product.roles[axis] != kRoles[role] && s.axes[axis].extent > 1) {
    return infeasible(concat(name, " does not run over ", kRoleNames[role], " of the product"));
  }
  return axis;
}

absl::StatusOr<Axes> named_axes(const Nest& nest, const Step& step) {
  ASSIGN_OR_RETURN(const int stage, target_stage(nest, step));
  const Stage& s = nest.stages[stage];
  const std::optional<NpuProduct> product = product_of(nest, stage);
  if (!product) return infeasible(concat(s.name, " is no product that the array computes"));
  ASSIGN_OR_RETURN(std::optional<VectorCode> epilogue, epilogue_code(nest, stage));
  Axes axes = {*product, std::move(epilogue), stage, -1, 1, {}, {}, {}, {}};
  for (const NestAxis& axis : s.axes) axes.tile.push_back(axis.reduction ? axis.extent : 1);
  if (has_outer(step)) {
    ASSIGN_OR_RETURN(axes.outer, named_axis(nest, axes, step.names[1], kRow));
    axes.outer_extent = s.axes[axes.outer].extent;
  }
  for (int n = 0; n < kNamed; ++n) {
    axes.name[n] = step.names[n + 1 + has_outer(step)];
    ASSIGN_OR_RETURN(axes.axis[n], named_axis(nest, axes, axes.name[n], n));
    axes.extent[n] = s.axes[axes.axis[n]].extent;
  }
  // How tiles are padded follows from that.
  if (axes.axis[kColumn] != product->column || axes.axis[kSum] != product->sum) {
    return infeasible("instructions run along other loops of columns and of sums");
  }
  return axes;
}

// Points of each that one instruction computes.
std::array<int64_t, kNamed> in_instruction(const npu::Config& config, const Axes& axes,
                                           int64_t rows) {
  return {std::min(rows, axes.extent[kRow]), std::min(config.mx.columns, axes.extent[kColumn]),
          std::min(config.mx.rows, axes.extent[kSum])};
}

// Whether a tile of these extents has whole what finishes it reduces, and the memories have room
// for one: of the named axes, `outer` of the
// second of rows; of others all of a sum, which runs inside, and one of each outside.
bool fits(const npu::Config& config, Axes& axes, int64_t outer,
          const std::array<int64_t, kNamed>& tile) {
  std::vector<int64_t>& extents = axes.tile;
  for (int n = 0; n < kNamed; ++n) extents[axes.axis[n]] = std::min(tile[n], axes.extent[n]);
  if (axes.outer >= 0) extents[axes.outer] = std::min(outer, axes.outer_extent);
  const auto operand = [&](bool b) { return operand_bytes(config, axes.product, b, extents); };
  VectorBytes bytes;
  if (axes.epilogue) {
    const std::vector<int64_t> box = result_box(axes.product, extents);
    if (!holds_whole(*axes.epilogue, box)) return false;
    bytes = vector_room(config, *axes.epilogue, box).with(1);
  }
  bytes.spm += operand(false) + operand(true);
  bytes.acc += result_bytes(config, axes.product, extents);
  return lw::fits(config, bytes);
}

// Whether each instruction begins where the memories let one begin: rows of what it reads and gives
// are cut at multiples of its sums and columns, in tiles and where several of these are held.
bool is_aligned(const npu::Config& config, const Axes& axes,
                const std::array<int64_t, kNamed>& block) {
  const auto cut = [&](int n, int64_t element, int64_t align) {
    return axes.extent[n] > block[n] && block[n] * element % align != 0;
  };
  const int64_t size = size_of(axes.product.a->type);
  return !cut(kSum, size, config.spm.align) && !cut(kColumn, size, config.spm.align) &&
         !cut(kColumn, 1, config.acc.align);
}

// Windows that are rows of an operand are whole in a tile.
bool has_whole_windows(const Axes& axes, int64_t sums) {
  return axes.product.window.empty() || sums >= axes.extent[kSum];
}

absl::Status apply_block_tile(Nest& nest, const Step& step) {
  const int extra = has_outer(step);
  RETURN_IF_ERROR(expect(step, {kNamed + 1 + extra, kNamed + 1 + extra, kNamed + 1 + extra,
                                kNamed + 1 + extra}));
  ASSIGN_OR_RETURN(Axes axes, named_axes(nest, step));
  const npu::Config& config = npu_config(*nest.target);
  for (const int64_t number : step.numbers) {
    if (number < 1) return infeasible(concat("a tile of ", number));
  }
  const int64_t outer = extra ? step.numbers[0] : 1, *numbers = step.numbers.data() + extra;
  if (outer > kMostOuter) return infeasible(concat(outer, " blocks of rows"));
  const std::array<int64_t, kNamed> block = in_instruction(config, axes, numbers[kNamed]);
  std::array<int64_t, kNamed> tile;
  for (int n = 0; n < kNamed; ++n) tile[n] = block[n] * std::min(numbers[n], axes.extent[n]);
  if (!is_aligned(config, axes, block)) {
    return infeasible(concat("instructions of ", block[kColumn], " columns and ", block[kSum],
                             " sums do not begin at multiples of spm.align and acc.align"));
  }
  if (!has_whole_windows(axes, tile[kSum])) {
    return infeasible(concat("a tile has whole windows, of ", axes.extent[kSum], " sums, not ",
                             tile[kSum]));
  }
  if (!fits(config, axes, outer, tile)) {
    if (axes.epilogue && !holds_whole(*axes.epilogue, result_box(axes.product, axes.tile))) {
      return infeasible("a tile cuts an axis along which what finishes it reduces");
    }
    return infeasible(concat("the memories have no room for a tile of ", outer * tile[kRow], " x ",
                             tile[kColumn], " x ", tile[kSum]));
  }
  Stage& s = nest.stages[axes.stage];
  for (int n = 0; n < kNamed; ++n) {
    // Into instructions, and those into tiles, the last of which may have fewer.
    for (const auto& [suffix, size] : {std::pair("", block[n]), std::pair(".0", numbers[n])}) {
      ASSIGN_OR_RETURN(const int position, loop_position(s, concat(axes.name[n], suffix)));
      RETURN_IF_ERROR(split_loop(nest, axes.stage, position, {&size, 1}, Tail::kCompose));
    }
  }
  if (extra) {
    ASSIGN_OR_RETURN(const int position, loop_position(s, step.names[1]));
    RETURN_IF_ERROR(split_loop(nest, axes.stage, position, {&outer, 1}, Tail::kCompose));
  }
  // Sums that are not named inside the loops over tiles, then what a tile has, then the
  // instruction.
  std::stable_partition(s.loops.begin(), s.loops.end(), [&](const Loop& loop) {
    const int axis = loop.parts[0].axis;
    return !s.axes[axis].reduction || axis == axes.axis[kSum];
  });
  const auto move_last = [&](const std::string& name) {
    const int position = find_loop(s, name);
    std::rotate(s.loops.begin() + position, s.loops.begin() + position + 1, s.loops.end());
    return &s.loops.back();
  };
  for (const std::string& name : axes.name) move_last(name + ".0.1");
  if (extra) move_last(step.names[1] + ".1")->kind = LoopKind::kUnroll;
  for (const std::string& name : axes.name) move_last(name + ".1")->kind = LoopKind::kUnroll;
  s.variant = kNpuWeightStationary;
  s.memory = kNpuAcc;
  return check_legal(nest, axes.stage);
}

// Tiles of instructions of m rows each, which are all rows if `whole`.
void add_tiles(const npu::Config& config, Axes& axes, int64_t outer, int64_t m, bool whole,
               std::vector<Decision>* domain) {
  const std::array<int64_t, kNamed> block = in_instruction(config, axes, m);
  if (!is_aligned(config, axes, block)) return;
  std::array<std::vector<int64_t>, kNamed> counts;
  for (int n = 0; n < kNamed; ++n) counts[n] = ladder((axes.extent[n] + block[n] - 1) / block[n]);
  for (const int64_t i : counts[kRow]) {
    if (i > (outer > 1 ? 1 : 4) && !whole) break;  // a taller instruction does the same
    for (const int64_t j : counts[kColumn]) {
      for (const int64_t k : counts[kSum]) {
        const std::array<int64_t, kNamed> tile = {i * block[kRow], j * block[kColumn],
                                                  k * block[kSum]};
        if (!has_whole_windows(axes, tile[kSum])) continue;
        if (!fits(config, axes, outer, tile)) break;
        Decision numbers = {i, j, k, m};
        if (axes.outer >= 0) numbers.insert(numbers.begin(), outer);
        domain->push_back(std::move(numbers));
      }
    }
  }
}

std::vector<Decision> block_tile_domain(const Nest& nest, const Step& step) {
  if (step.names.size() != kNamed + 1 && !has_outer(step)) return {};
  absl::StatusOr<Axes> axes = named_axes(nest, step);
  if (!axes.ok()) return {};
  const npu::Config& config = npu_config(*nest.target);
  const int64_t most = std::min(kMostRows, axes->extent[kRow]);
  std::vector<int64_t> rows;
  for (int64_t m = std::min(config.mx.rows, most); m < most; m *= 2) rows.push_back(m);
  rows.push_back(most);
  std::vector<Decision> domain;
  std::vector<int64_t> outers = {1};
  if (axes->outer >= 0) outers = ladder(axes->outer_extent);
  for (const int64_t outer : outers) {
    if (outer > kMostOuter) break;
    for (const int64_t m : rows) add_tiles(config, *axes, outer, m, m == most, &domain);
  }
  return domain;
}

}  // namespace

const StepKind& block_tile() {
  static constexpr StepKind kind = {"block_tile", 1, apply_block_tile, block_tile_domain, "npu"};
  return kind;
}

}  // namespace lw
