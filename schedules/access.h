// What a stage reads, and how the axes of its loops move each index: read once, here, for the
// domains of steps, for rules, for the draft and for the features. Thread-safe, deterministic.
//
// An index that is a sum of multiples of axes is exact. Of a quotient, a remainder or a clamp a
// form keeps what bounds its values (IndexForm), and the steps of an address are guesses (Address,
// ReadSteps). What data leads to may be anywhere.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "schedules/nest.h"
#include "src/expr/expr.h"

namespace lw {

// constant + the sum of factor / over * (axis / divisor % modulus). A term is a part of a quotient
// where `over` is not 1; the form is then as wide as the index, not equal to it.
struct IndexForm {
  struct Term {
    int axis;
    int64_t factor;
    int64_t over = 1;
    int64_t divisor = 1, modulus = 0;      // of fused axes; modulus 0: none
    double coefficient() const {
      const double exact = static_cast<double>(factor);
      return over == 1 ? exact : exact / static_cast<double>(over);
    }
  };
  absl::InlinedVector<Term, 2> terms;
  int64_t constant = 0;
  int64_t limit = 0;                       // under a modulus: at most so many values; 0: no limit
  bool affine = true;                      // it is the index: multiples of axes and the constant
  bool gather = false;                     // follows data: anything in the dimension
};

// Of an index over the axes that it names; and of one of the stage's effective body, over the axes
// of its loops.
IndexForm index_form(const Expr& index);
IndexForm index_form(const Nest& nest, int stage, const Expr& index);

// By how much the index moves from one point of `axis` to the next. REQUIRES: affine.
int64_t step_of(const IndexForm& form, int axis);

// Adds `factor` times the steps of an index per unit of every axis; false when it is not affine:
// what is below a quotient, a remainder, a clamp or a read then counts as a step each.
bool add_steps(const Expr& index, int64_t factor, absl::Span<int64_t> per_axis);

// The stage's effective body, over the axes of its loops.
Expr body_over_loops(const Nest& nest, int stage);

// Of one read: by how much each axis of the stage moves each of its dimensions.
using ReadSteps = std::vector<std::vector<int64_t>>;
// Of all reads of the stage's effective body, in the order in which they stand there. Where an
// index is not affine, guesses.
std::vector<ReadSteps> read_steps(const Nest& nest, int stage);
bool moves(const ReadSteps& read, size_t axis);

// One read of a tensor in a stage's effective body: how each of the stage's axes moves its address.
struct Address {
  int tensor;
  std::vector<int64_t> stride;             // elements per step of each axis of the stage
  bool affine = true;                      // false: gathered or divided; strides are 0 or guesses
  bool guarded = false;                    // under a pad or a where: may be outside its tensor
};
std::vector<Address> addresses(const Nest& nest, int stage);

bool uses(const Address& address, int axis);
// Whether several points of the result read the same element: some axis of it does not move the
// address.
bool reused(const Stage& stage, const Address& address);
// A reduction some operand of which serves several points of the result: worth a register tile.
bool has_reuse(const Nest& nest, int stage);

// The box of `tensor` that the reads touch where each axis is in its range: points of each of its
// dimensions, at most those it has. Empty: they do not read it.
std::vector<int64_t> box_of(absl::Span<const ExprNode* const> reads, int tensor,
                            const std::vector<int64_t>& shape,
                            const std::vector<Interval>& axis_range);
// What the stage's body reads of the tensor while the loops before position `loop` stand still.
std::vector<int64_t> read_region(const Nest& nest, int stage, int tensor, int loop);
// What it reads of the tensor at the first so many points of each of its axes.
std::vector<int64_t> read_box(const Nest& nest, int stage, int tensor,
                              const std::vector<int64_t>& extents);

// The stage's axis that alone, with factor 1 and no offset, indexes dimension `dim` of every read
// of `tensor`; -1 when there is none.
int index_axis(const Nest& nest, int stage, int tensor, int dim);
// Whether a copy of boxes is the same wherever its host's tile stands along the axis.
bool alike_along(const Nest& nest, const Stage& copy, int axis);
// Whether every read of `tensor` in the stage is at the stage's first `dims` axes, in order.
bool reads_at_prefix(const Nest& nest, int stage, int tensor, int dims);

}  // namespace lw
