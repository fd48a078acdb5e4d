// Conditions on indices, and what a where chooses by them, for a machine that neither branches nor
// selects: a mask has 1 where the condition holds, else 0, and what is chosen is made of products
// with masks and sums of these. They are of words, as integers, so that what is not chosen may be
// infinite or NaN. Internal to schedules/npu.
#pragma once

#include "absl/status/statusor.h"
#include "schedules/npu/vector_values.h"

namespace lw {

class VectorMasks : protected VectorValues {
 protected:
  using VectorValues::VectorValues;

  // Comparisons of sums of multiples of axes, and what and, or and not make of such: a value, i32.
  absl::StatusOr<int> mask(const Expr& condition);

  struct Choice {
    int value = -1;                        // -1: the number
    double number = 0;
  };
  // `yes` where the mask has 1, elsewhere `no`; of i32 or f32.
  int choose(int mask, const Choice& yes, const Choice& no, Type type);

 private:
  absl::StatusOr<int> comparison(const Expr& condition);
  // The axes' multiples and the constant are more than 0.
  int is_positive(const std::vector<int64_t>& steps, int64_t constant);
  int negated(int mask) { return scalar(ExprOp::kSub, 1, mask); }
  int words(ExprOp op, int a, int b, Type type);
  int scaled_words(int32_t number, int value, Type type);
};

}  // namespace lw
