// matrix_tile(C, i, j, k; 64, 32, 16)
//   before  i: 512          after  i.0: 8 of 64, mask
//             j: 512                 j.0: 16 of 32, mask
//               k: 512                 k.0: 32 of 16, mask
//                                        unroll k.1: 16
//                                          unroll i.1: 64
//                                            unroll j.1: 32
// The tile is a sub-group's, by the target's instruction that multiplies matrices, of which it
// holds so many: i is along its m, j along its n, k along the reduction. What is beyond an axis'
// end counts as zero and is not kept.
#include <algorithm>

#include "schedules/domains.h"
#include "schedules/dot.h"
#include "schedules/legality.h"
#include "schedules/targets/simt/simt_target.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/expr.h"
#include "schedules/targets/matrix_shape.h"

namespace lw {
namespace {

constexpr int64_t kMostTile = 256;         // points of an axis
constexpr int64_t kMostSteps = 4;          // instructions along k

absl::StatusOr<ProductSides> sides_of(const Nest& nest, const Step& step) {
  const SimtTarget& target = simt(*nest.target);
  if (target.sub_group != kMatrixItems) {
    return infeasible(concat("sub-groups have ", target.sub_group, " items, not ", kMatrixItems));
  }
  return product_sides(nest, step);
}

absl::Status apply_matrix_tile(Nest& nest, const Step& step) {
  RETURN_IF_ERROR(expect(step, {4, 4, 3, 3}));
  ASSIGN_OR_RETURN(const ProductSides sides, sides_of(nest, step));
  const int64_t unit[3] = {sides.shape->m, sides.shape->n, sides.shape->k};
  Stage& s = nest.stages[sides.stage];
  for (int side = 0; side < 3; ++side) {
    const int64_t points = step.numbers[side];
    const int64_t all = range_of(s, sides.position[side]);
    const bool whole = points == all && all < unit[side];
    if (!whole && (points < unit[side] || points > kMostTile || points % unit[side] != 0)) {
      return infeasible(concat("tiles of ", points, " points are no multiple of ", unit[side],
                               " up to ", kMostTile));
    }
    s.matrix_axes[side] = sides.axis[side];
  }
  const auto matrices = [&](int side) {
    return (step.numbers[side] + unit[side] - 1) / unit[side];
  };
  const int64_t words = sides.shape->words(matrices(0), matrices(1));
  if (4 * words > simt(*nest.target).register_bytes) {
    return infeasible(concat("an item needs ", words, " words of registers"));
  }
  s.matrix = static_cast<int>(sides.factors.atom - nest.target->atoms.data());
  for (const int side : {2, 0, 1}) {
    ASSIGN_OR_RETURN(const int position, loop_position(s, step.names[side + 1]));
    RETURN_IF_ERROR(
        split_loop(nest, sides.stage, position, {&step.numbers[side], 1}, Tail::kMask));
    std::rotate(s.loops.begin() + position + 1, s.loops.begin() + position + 2, s.loops.end());
    s.loops.back().kind = LoopKind::kUnroll;
  }
  return check_legal(nest, sides.stage);
}

// Powers of two of the instruction's, and three times these.
std::vector<int64_t> sizes_of(int64_t unit, int64_t extent, int64_t most) {
  if (extent < unit) return {extent};      // of one that is not full
  std::vector<int64_t> sizes;
  for (int64_t count = 1; count * unit <= most; ++count) {
    const int64_t odd = count % 3 == 0 ? count / 3 : count;
    const bool waste = count > 1 && (count - 1) * unit >= extent;
    if ((odd & (odd - 1)) == 0 && !waste) sizes.push_back(count * unit);
  }
  return sizes;
}

std::vector<Decision> matrix_tile_domain(const Nest& nest, const Step& step) {
  std::vector<Decision> domain;
  const absl::StatusOr<ProductSides> sides = sides_of(nest, step);
  if (!sides.ok()) return domain;
  const Stage& s = nest.stages[sides->stage];
  const MatrixShape& shape = *sides->shape;
  const auto extent = [&](int side) { return range_of(s, sides->position[side]); };
  for (const int64_t m : sizes_of(shape.m, extent(0), kMostTile / 2)) {
    for (const int64_t n : sizes_of(shape.n, extent(1), kMostTile / 2)) {
      for (const int64_t k : sizes_of(shape.k, extent(2), shape.k * kMostSteps)) {
        if (k / shape.k == 3) continue;
        if (applies(nest, step, {m, n, k})) domain.push_back({m, n, k});
      }
    }
  }
  return domain;
}

}  // namespace

const StepKind& matrix_tile() {
  static constexpr StepKind kind = {"matrix_tile", 1, apply_matrix_tile, matrix_tile_domain,
                                    "simt"};
  return kind;
}

}  // namespace lw
