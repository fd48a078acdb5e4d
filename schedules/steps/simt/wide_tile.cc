// wide_tile(C, i, j, k; 2, 256)
//   before  i: 4096          after  i.0: 32 of 128
//             j: 4096                 i.1: 8 of 16
//               k: 4096                 j.0: 16 of 256
//                                         k.0: 64 of 64
//                                           unroll k.1: 64
//                                             unroll i.2: 16
//                                               unroll j.1: 256
// A group's tile, by the target's instruction by which four sub-groups multiply matrices that lie in
// memory they share: so many fours along i, of 64 rows each, and so many columns, for as much of k as
// fills a row of 128 bytes. Where an operand does not lie along k its elements have two bytes, and its
// columns fill rows of 128 bytes too. Where extents are no multiples of these operands are to be copied
// as boxes (share(...; 5)), of which what lies beyond an end is 0; it counts, and is not kept. So
// must operands be that have zeros around them (pad). A factor along i that is more (weights of bytes)
// items make, each its part, in registers.
#include <algorithm>

#include "schedules/access.h"
#include "schedules/domains.h"
#include "schedules/dot.h"
#include "schedules/legality.h"
#include "schedules/steps/simt/boxes.h"
#include "schedules/targets/matrix_shape.h"
#include "schedules/targets/simt/simt_target.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/expr.h"

namespace lw {
namespace {

constexpr int64_t kMostFours = 4;          // of a group: what is worth trying

struct WideSides {
  ProductSides of;
  const Atom* atom = nullptr;
  int64_t columns = 8;                     // of which a tile has a multiple
  bool made = false;                       // the factor along its rows, by items
};

// What the operand's rows of 128 bytes run along: of the tile's columns so many come at once.
absl::StatusOr<int64_t> unit_of(const Nest& nest, int stage, const Expr& factor, int side, int k) {
  bool padded = false;
  const ExprNode* const read = read_of_factor(factor, &padded);
  if (read == nullptr) return infeasible("a factor is more than a read");
  const int tensor = read->index;
  if (padded) RETURN_IF_ERROR(check_box(nest, tensor));
  const int rank = static_cast<int>(nest.program->tensors[tensor].shape.size());
  const int along = rank == 0 ? -1 : index_axis(nest, stage, tensor, rank - 1);
  if (along == k) return int64_t{8};
  const int size = size_of(nest.program->tensors[tensor].type);
  if (along == side && size == 2) return kWideRowBytes / size;
  return infeasible(concat(nest.program->tensors[tensor].name, " does not lie along k",
                           size == 2 ? ", nor along its side" : ", as single bytes must"));
}

// Whether a box of the factor's tensor, or what items copy of it, has the side's rows one after the
// other, with the zeros that are around.
bool lies_in_rows(const Nest& nest, int stage, const Expr& factor, int side) {
  bool padded = false;
  const ExprNode* const read = read_of_factor(factor, &padded);
  if (read == nullptr || (padded && !check_box(nest, read->index).ok())) return false;
  const std::vector<int64_t>& shape = nest.program->tensors[read->index].shape;
  const std::vector<Address> all = addresses(nest, stage);
  return std::all_of(all.begin(), all.end(), [&](const Address& address) {
    if (address.tensor != read->index || !uses(address, side)) return true;
    int64_t row = 1;
    for (size_t d = shape.size(); d-- > 0; row *= shape[d]) {
      if (address.stride[static_cast<size_t>(side)] == row) return true;
    }
    return false;
  });
}

absl::StatusOr<WideSides> fours_of(const Nest& nest, const Step& step) {
  WideSides sides;
  ASSIGN_OR_RETURN(sides.of, product_sides(nest, step));
  const auto& [stage, position, axis, factors, shape] = sides.of;
  sides.atom = wide_product(*nest.target, shape->a, shape->b, shape->acc);
  if (sides.atom == nullptr) {
    return infeasible(concat(nest.target->name, " has no such instruction of four sub-groups"));
  }
  sides.made = !lies_in_rows(nest, stage, factors.a, axis[0]);
  // Of rows there are 64, a multiple of either.
  if (!sides.made) RETURN_IF_ERROR(unit_of(nest, stage, factors.a, axis[0], axis[2]).status());
  ASSIGN_OR_RETURN(sides.columns, unit_of(nest, stage, factors.b, axis[1], axis[2]));
  return sides;
}

// Whether what a tile has of the operands beyond the side's end may count as zero.
absl::Status check_end(const Nest& nest, const WideSides& sides, int side) {
  const int stage = sides.of.stage, axis = sides.of.axis[side];
  if (sides.made && side == 2) return infeasible("what items make beyond an end is not zero");
  const ExprNode* const read[] = {sides.made ? nullptr : read_of_factor(sides.of.factors.a),
                                  read_of_factor(sides.of.factors.b)};
  if (read[0] != nullptr && read[0]->index == read[1]->index) {
    return infeasible("one tensor's box is two tiles, which end in two places");
  }
  for (const ExprNode* factor : read) {
    if (factor == nullptr) continue;
    RETURN_IF_ERROR(check_box(nest, factor->index));
    const Tensor& tensor = nest.program->tensors[factor->index];
    for (size_t d = 0; side == 2 && d < tensor.shape.size(); ++d) {
      const bool along = index_axis(nest, stage, factor->index, static_cast<int>(d)) == axis;
      if (!along || tensor.shape[d] == nest.stages[stage].axes[axis].extent) continue;
      return infeasible(concat(tensor.name, " goes on where ", nest.stages[stage].axes[axis].name,
                               " ends"));
    }
  }
  return absl::OkStatus();
}

int64_t row_of(const MatrixShape& shape) { return kWideRowBytes / size_of(shape.a); }

absl::Status check_numbers(const Nest& nest, const WideSides& sides, int64_t fours,
                           int64_t columns) {
  const MatrixShape& shape = *sides.of.shape;
  const Stage& s = nest.stages[sides.of.stage];
  const SimtTarget& target = simt(*nest.target);
  const int64_t unit[3] = {kWideRows * fours, columns, row_of(shape)};
  const bool fits = fours >= 1 && fours * kWideItems <= target.group_items && columns >= 8 &&
                    columns <= kWideColumns && columns % sides.columns == 0 &&
                    (size_of(shape.a) > 1 || columns <= 32 || columns % 16 == 0);
  if (!fits) {
    return infeasible(concat("no group of ", fours, " x 4 sub-groups has ", columns, " columns"));
  }
  for (int side = 0; side < 3; ++side) {
    const int64_t all = range_of(s, sides.of.position[side]);
    if (all % unit[side] == 0) continue;
    if (side == 2 && all != s.axes[sides.of.axis[side]].extent) {
      return infeasible(concat("parts of ", all, " points are no multiple of ", unit[side]));
    }
    if (all < unit[side]) return infeasible(concat(all, " points fill no tile of ", unit[side]));
    RETURN_IF_ERROR(check_end(nest, sides, side));
  }
  const int64_t made = sides.made ? shape.words_of_made() : 0;
  const int64_t results = shape.words_of_results(1, columns / shape.n, !s.epilogue.empty());
  const int64_t item = 4 * (results + made), group = item * fours * kWideItems;
  if (item <= target.register_bytes && group <= target.unit_register_bytes) return absl::OkStatus();
  return infeasible(concat("a group needs ", group, " bytes of registers, an item ", item, ", of ",
                           target.unit_register_bytes, " and ", target.register_bytes));
}

absl::Status apply_wide_tile(Nest& nest, const Step& step) {
  RETURN_IF_ERROR(expect(step, {4, 4, 2, 2}));
  ASSIGN_OR_RETURN(const WideSides sides, fours_of(nest, step));
  RETURN_IF_ERROR(check_numbers(nest, sides, step.numbers[0], step.numbers[1]));
  const auto& [stage, position, axis, factors, shape] = sides.of;
  Stage& s = nest.stages[stage];
  std::copy_n(axis, 3, s.matrix_axes);
  s.matrix = static_cast<int>(sides.atom - nest.target->atoms.data());
  s.made = sides.made;
  const std::vector<int64_t> tiles[3] = {
      {step.numbers[0] * kWideSubGroups, shape->m}, {step.numbers[1]}, {row_of(*shape)}};
  // Loops of the grid are to be one: both have ends where one has.
  const auto ends = [&](int side, int64_t unit) {
    return range_of(s, position[side]) % unit != 0;
  };
  const Tail grid = ends(0, kWideRows * step.numbers[0]) || ends(1, step.numbers[1])
                        ? Tail::kMask : Tail::kCompose;
  const Tail sum = ends(2, row_of(*shape)) ? Tail::kMask : Tail::kCompose;
  for (const int side : {2, 0, 1}) {
    ASSIGN_OR_RETURN(const int at, loop_position(s, step.names[side + 1]));
    RETURN_IF_ERROR(split_loop(nest, stage, at, tiles[side], side == 2 ? sum : grid));
    const auto last = s.loops.begin() + at + static_cast<int>(tiles[side].size());
    std::rotate(last, last + 1, s.loops.end());
    s.loops.back().kind = LoopKind::kUnroll;
  }
  return check_legal(nest, stage);
}

std::vector<Decision> wide_tile_domain(const Nest& nest, const Step& step) {
  std::vector<Decision> domain;
  const absl::StatusOr<WideSides> sides = fours_of(nest, step);
  if (!sides.ok()) return domain;
  const int64_t all = range_of(nest.stages[sides->of.stage], sides->of.position[1]);
  for (int64_t fours = 1; fours <= kMostFours; ++fours) {
    for (int64_t columns = sides->columns; columns <= kWideColumns; columns += sides->columns) {
      const int64_t odd = columns % 3 == 0 ? columns / 3 : columns;
      const bool ladder = (odd & (odd - 1)) == 0 || all % columns == 0;
      if (ladder && check_numbers(nest, *sides, fours, columns).ok()) {
        domain.push_back({fours, columns});
      }
    }
  }
  return domain;
}

}  // namespace

const StepKind& wide_tile() {
  static constexpr StepKind kind = {"wide_tile", 1, apply_wide_tile, wide_tile_domain, "simt"};
  return kind;
}

}  // namespace lw
