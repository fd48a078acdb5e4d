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
//
// wide_tile(Y, x, j, k, y; 1, 256, 8)
//   before  y: 14            after  y.0: 2 of 8, mask
//             x: 14                   y.1: 4 of 2, mask
//               j: 256                  x.0: 2 of 8, mask
//                 k: 256                  x.1: 1 of 8, mask
//                                           j.0: 1 of 256, mask
//                                             k.0: 4 of 64
//                                               unroll k.1: 64
//                                                 unroll y.2: 2
//                                                   unroll x.2: 8
//                                                     unroll j.1: 256
// Rows are of two axes: of so many points along x, a power of two, and as many along y as make them
// whole fours. So small images have enough of them; a box brings them in this order.
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
constexpr int64_t kAlongK = 8;             // columns that come at once, where each lies along k
constexpr int kOver = 3;                   // after m, n and k

struct WideSides {
  ProductSides of;
  int over = -1, over_position = -1;       // of rows of two axes the outer one and its loop
  const Atom* atom = nullptr;
  int64_t columns = kAlongK;               // of which a tile has a multiple
  bool made = false;                       // the factor along its rows, by items

  int axis(int side) const { return side == kOver ? over : of.axis[side]; }
  int position(int side) const { return side == kOver ? over_position : of.position[side]; }
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
  if (along == k) return kAlongK;
  const int size = size_of(nest.program->tensors[tensor].type);
  if (along == side && size == 2) return kWideRowBytes / size;
  return infeasible(concat(nest.program->tensors[tensor].name, " does not lie along k",
                           size == 2 ? ", nor along its side" : ", as single bytes must"));
}

// Whether a box of the factor's tensor, or what items copy of it, has the side's rows one after the
// other, with the zeros that are around; and so those of `over`, if any, with the side's in them.
bool lies_in_rows(const Nest& nest, int stage, const Expr& factor, int side, int over) {
  bool padded = false;
  const ExprNode* const read = read_of_factor(factor, &padded);
  if (read == nullptr || (padded && !check_box(nest, read->index).ok())) return false;
  const std::vector<int64_t>& shape = nest.program->tensors[read->index].shape;
  const std::vector<Address> all = addresses(nest, stage);
  return std::all_of(all.begin(), all.end(), [&](const Address& address) {
    if (address.tensor != read->index) return true;
    const auto steps = [&](int axis) {
      if (!uses(address, axis)) return true;
      int64_t row = 1;
      for (size_t d = shape.size(); d-- > 0; row *= shape[d]) {
        if (address.stride[static_cast<size_t>(axis)] == row) return true;
      }
      return false;
    };
    return steps(side) &&
           (over < 0 || (steps(over) && address.stride[over] > address.stride[side]));
  });
}

absl::Status find_over(const Nest& nest, const Step& step, WideSides& sides) {
  const auto& [stage, position, axis, factors, shape] = sides.of;
  const Stage& s = nest.stages[stage];
  ASSIGN_OR_RETURN(sides.over_position, loop_position(s, step.names[kOver + 1]));
  const Loop& loop = s.loops[sides.over_position];
  const bool results = is_plain(loop) && !is_reduction(s, loop);
  sides.over = loop.parts[0].axis;
  const Type acc = nest.program->tensors[s.tensor].type;
  if (!results || sides.over == axis[0] || sides.over == axis[1] ||
      !matrix_factors(*nest.target, effective_body(nest, stage), acc, sides.over, axis[1])) {
    return infeasible(concat(loop.name, " runs over no other rows"));
  }
  return absl::OkStatus();
}

absl::StatusOr<WideSides> fours_of(const Nest& nest, const Step& step) {
  WideSides sides;
  ASSIGN_OR_RETURN(sides.of, product_sides(nest, step));
  const auto& [stage, position, axis, factors, shape] = sides.of;
  sides.atom = wide_product(*nest.target, shape->a, shape->b, shape->acc);
  if (sides.atom == nullptr) {
    return infeasible(concat(nest.target->name, " has no such instruction of four sub-groups"));
  }
  if (step.names.size() > kOver + 1) RETURN_IF_ERROR(find_over(nest, step, sides));
  sides.made = !lies_in_rows(nest, stage, factors.a, axis[0], sides.over);
  int64_t unit = 0;
  if (!sides.made) {                       // of rows there are 64, a multiple of either
    ASSIGN_OR_RETURN(unit, unit_of(nest, stage, factors.a, axis[0], axis[2]));
  }
  if (sides.over >= 0 && unit != kAlongK) {
    return infeasible(concat("rows along ", step.names[kOver + 1], " and ", step.names[1],
                             " are of no box along k"));
  }
  ASSIGN_OR_RETURN(sides.columns, unit_of(nest, stage, factors.b, axis[1], axis[2]));
  if (!lies_in_rows(nest, stage, factors.b, axis[1], -1)) {
    return infeasible(concat("columns along ", step.names[2], " do not follow each other"));
  }
  return sides;
}

// Whether what a tile has of the operands beyond the side's end may count as zero.
absl::Status check_end(const Nest& nest, const WideSides& sides, int side) {
  const int stage = sides.of.stage, axis = sides.axis(side);
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

// Points of a group's tile along each side; and of its rows' axes, of a sub-group's.
struct Tile {
  int64_t points[kOver + 1];
  int64_t rows, rows_over;
};

Tile tile_of(const WideSides& sides, const Decision& numbers) {
  const MatrixShape& shape = *sides.of.shape;
  const int64_t all = kWideRows * numbers[0], along = sides.over < 0 ? all : numbers[2];
  const int64_t rows = std::min<int64_t>(along, shape.m);
  return {{along, numbers[1], row_of(shape), all / along}, rows, shape.m / rows};
}

absl::Status check_numbers(const Nest& nest, const WideSides& sides, const Decision& numbers) {
  const MatrixShape& shape = *sides.of.shape;
  const Stage& s = nest.stages[sides.of.stage];
  const SimtTarget& target = simt(*nest.target);
  const int64_t fours = numbers[0], columns = numbers[1];
  const bool fits = fours >= 1 && fours * kWideItems <= target.group_items && columns >= 8 &&
                    columns <= kWideColumns && columns % sides.columns == 0 &&
                    (size_of(shape.a) > 1 || columns <= 32 || columns % 16 == 0);
  if (!fits) {
    return infeasible(concat("no group of ", fours, " x 4 sub-groups has ", columns, " columns"));
  }
  if (sides.over >= 0) {
    const int64_t all = kWideRows * fours, along = numbers[2];
    if (along < 2 || (along & (along - 1)) != 0 || along == all || all % along != 0) {
      return infeasible(concat(all, " rows are of no ", along, " points along one of two axes"));
    }
  }
  const Tile tile = tile_of(sides, numbers);
  for (int side = 0; side < (sides.over < 0 ? kOver : kOver + 1); ++side) {
    const int64_t all = range_of(s, sides.position(side)), unit = tile.points[side];
    if (all % unit == 0) continue;
    if (side == 2 && all != s.axes[sides.axis(side)].extent) {
      return infeasible(concat("parts of ", all, " points are no multiple of ", unit));
    }
    if (all < unit) return infeasible(concat(all, " points fill no tile of ", unit));
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
  RETURN_IF_ERROR(expect(step, {4, 5, 2, 3}));
  if ((step.names.size() == 5) != (step.numbers.size() == 3)) {
    return infeasible("two axes of rows have a number of their own");
  }
  ASSIGN_OR_RETURN(const WideSides sides, fours_of(nest, step));
  RETURN_IF_ERROR(check_numbers(nest, sides, step.numbers));
  const auto& [stage, position, axis, factors, shape] = sides.of;
  Stage& s = nest.stages[stage];
  std::copy_n(axis, 3, s.matrix_axes);
  s.matrix = static_cast<int>(sides.atom - nest.target->atoms.data());
  s.rows_over = sides.over;
  s.made = sides.made;
  const Tile tile = tile_of(sides, step.numbers);
  const std::vector<int64_t> sizes[] = {{tile.points[0] / tile.rows, tile.rows},
                                        {tile.points[1]},
                                        {tile.points[2]},
                                        {tile.points[kOver] / tile.rows_over, tile.rows_over}};
  const auto ends = [&](int side) {
    return sides.axis(side) >= 0 && range_of(s, sides.position(side)) % tile.points[side] != 0;
  };
  // Loops of the grid are to be one: all have ends where one has.
  const Tail grid = ends(0) || ends(1) || ends(kOver) ? Tail::kMask : Tail::kCompose;
  const Tail sum = ends(2) ? Tail::kMask : Tail::kCompose;
  for (const int side : {2, kOver, 0, 1}) {
    if (sides.axis(side) < 0) continue;
    ASSIGN_OR_RETURN(const int at, loop_position(s, step.names[side + 1]));
    RETURN_IF_ERROR(split_loop(nest, stage, at, sizes[side], side == 2 ? sum : grid));
    const auto last = s.loops.begin() + at + static_cast<int>(sizes[side].size());
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
  const auto add = [&](Decision numbers) {
    if (check_numbers(nest, *sides, numbers).ok()) domain.push_back(std::move(numbers));
  };
  for (int64_t fours = 1; fours <= kMostFours; ++fours) {
    for (int64_t columns = sides->columns; columns <= kWideColumns; columns += sides->columns) {
      const int64_t odd = columns % 3 == 0 ? columns / 3 : columns;
      const bool ladder = (odd & (odd - 1)) == 0 || all % columns == 0;
      if (!ladder) continue;
      if (sides->over < 0) add({fours, columns});
      for (int64_t along = 2; sides->over >= 0 && along < kWideRows * fours; along *= 2) {
        add({fours, columns, along});
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
