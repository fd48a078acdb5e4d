// Conditions, and what a where chooses by them, for a machine that neither branches nor selects: a
// mask, i32, has 1 where the condition holds, else 0, and what is chosen is made of products with
// masks and sums of these. They are of words, as integers, so that what is not chosen may be infinite
// or NaN. Internal to schedules/npu.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "schedules/npu/vector_values.h"

namespace lw {

class VectorMasks : protected VectorValues {
 protected:
  using VectorValues::VectorValues;

  // A comparison of sums of multiples of axes, of 32 bits; none: of something else.
  std::optional<int> index_mask(const Expr& condition);
  // Of two values of i32 or f32; floats are greater or less alone.
  absl::StatusOr<int> data_mask(const ExprNode& condition, int a, int b);
  int negated(int mask) { return scalar(ExprOp::kSub, 1, mask); }

  struct Choice {
    int value = -1;                        // -1: the number
    double number = 0;
  };
  // `yes` where the mask has 1, elsewhere `no`; of i32 or f32.
  int choose(int mask, const Choice& yes, const Choice& no, Type type);

 private:
  // The axes' multiples and the constant are more than 0.
  int is_positive(const std::vector<int64_t>& steps, int64_t constant);
  int is_greater(int a, int b);
  // What the last operation gave, which is of words.
  int as_words(int value, Type type);
  int words(ExprOp op, int a, int b, Type type);
  int scaled_words(int32_t number, int value, Type type);
};

}  // namespace lw
