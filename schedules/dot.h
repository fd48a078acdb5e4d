// Sums that a dot-product instruction of the target computes.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "schedules/nest.h"
#include "schedules/steps.h"
#include "schedules/targets/matrix_shape.h"
#include "schedules/targets/target.h"
#include "src/expr/expr.h"

namespace lw {

// The two factors before their conversion to the accumulator's type: a has the type of atom->a, b
// that of atom->b.
struct DotFactors {
  Expr a, b;
  const Atom* atom;                        // of the target, as long as that lives
};

// Of a sum's term in the accumulator's type, cast(x) * cast(y), where the target has an instruction
// for these types; a `where` around it is looked through.
std::optional<DotFactors> dot_factors(const Target& target, const Expr& term, Type acc);

// Factors of the same kind for an instruction that multiplies matrices: `a` moves with axis `m` of the
// term's and not with `n`, `b` the other way round. Factors of the accumulator's type are not converted.
std::optional<DotFactors> matrix_factors(const Target& target, const Expr& term, Type acc, int m,
                                         int n);

// The read that a factor is, if it is no more than that, or than one with zeros around its tensor
// (`padded`, if wanted, says so); null: it is more.
const ExprNode* read_of_factor(const Expr& factor, bool* padded = nullptr);

// A sum at the root whose loops are yet to be cut into matrices, by a step that names it and its loops
// along m, n and k (steps/simt/{matrix,wide}_tile.cc).
struct ProductSides {
  int stage = -1;
  int position[3] = {-1, -1, -1};          // of the loops
  int axis[3] = {-1, -1, -1};              // theirs
  DotFactors factors;
  const MatrixShape* shape = nullptr;
};
// kFailedPrecondition: why there are none.
absl::StatusOr<ProductSides> product_sides(const Nest& nest, const Step& step);

// Of a stage whose tile is matrices. REQUIRES: stage.matrix >= 0.
const MatrixShape& matrix_shape_of(const Nest& nest, const Stage& stage);
// Its factors in `body`, which is its own as far as that is inlined. REQUIRES: the same.
DotFactors factors_of_tile(const Nest& nest, const Stage& stage, const Expr& body);
// Whether four sub-groups multiply together, from memory. REQUIRES: the same.
bool is_wide(const Nest& nest, const Stage& stage);
// Rows of a box of the stage's axes. REQUIRES: the same.
auto rows_of_box(const Stage& stage, const auto& extents) {
  const auto rows = extents[stage.matrix_axes[0]];
  return stage.rows_over < 0 ? rows : rows * extents[stage.rows_over];
}

}  // namespace lw
