#include "schedules/npu/vector_masks.h"

#include <bit>
#include <limits>

#include "schedules/access.h"
#include "src/base/check.h"
#include "src/base/message.h"

namespace lw {

std::optional<int> VectorMasks::index_mask(const Expr& condition) {
  const ExprNode& e = *condition;
  if (is_float(e.args[0]->type)) return std::nullopt;
  std::vector<int64_t> steps(stage_.axes.size());
  int64_t constant = 0;
  __int128 most = 0;
  for (int side = 0; side < 2; ++side) {
    const IndexForm form = index_form(e.args[static_cast<size_t>(side)]);
    if (!form.affine || form.gather) return std::nullopt;
    const auto add = [&](int64_t factor, int64_t extent, int64_t& to) {
      const __int128 value = __int128{factor} * extent;
      most += value < 0 ? -value : value;
      if (most < std::numeric_limits<int32_t>::max()) to += side == 0 ? factor : -factor;
    };
    add(form.constant, 1, constant);
    for (size_t a = 0; a < steps.size(); ++a) {
      const int64_t extent = stage_.axes[a].extent;
      if (extent > 1) add(step_of(form, static_cast<int>(a)), extent, steps[a]);
    }
  }
  if (most >= std::numeric_limits<int32_t>::max()) return std::nullopt;
  std::vector<int64_t> opposite = steps;
  for (int64_t& step : opposite) step = -step;
  switch (e.op) {
    case ExprOp::kGt: return is_positive(steps, constant);
    case ExprOp::kGe: return is_positive(steps, constant + 1);
    case ExprOp::kLt: return is_positive(opposite, -constant);
    case ExprOp::kLe: return is_positive(opposite, 1 - constant);
    case ExprOp::kEq:
    case ExprOp::kNe: {
      const int equal = combined(ExprOp::kMul, is_positive(steps, constant + 1),
                                 is_positive(opposite, 1 - constant));
      return e.op == ExprOp::kEq ? equal : negated(equal);
    }
    default: return std::nullopt;
  }
}

absl::StatusOr<int> VectorMasks::data_mask(const ExprNode& condition, int a, int b) {
  switch (condition.op) {
    case ExprOp::kGt: return is_greater(a, b);
    case ExprOp::kLt: return is_greater(b, a);
    default: break;
  }
  if (is_float(type_of(a))) {              // what is no number is neither greater nor not
    return refuse(concat("its vector engine compares floats by > and <, not by ",
                         op_name(condition.op)));
  }
  switch (condition.op) {
    case ExprOp::kGe: return negated(is_greater(b, a));
    case ExprOp::kLe: return negated(is_greater(a, b));
    default: break;
  }
  const int unequal = combined(ExprOp::kMax, is_greater(a, b), is_greater(b, a));
  return condition.op == ExprOp::kNe ? unequal : negated(unequal);
}

// The engine's first operand is no column of what are rows; of floats it gives 1.0.
int VectorMasks::is_greater(int a, int b) {
  const Axes rows = code_.vector_axis < 0 ? 0 : Axes{1} << code_.vector_axis;
  a = spread(a, axes_of(a) | (axes_of(b) & rows));
  const int greater = combined(ExprOp::kGt, a, b);
  if (!is_float(type_of(greater))) return greater;
  return as_words(scalar(ExprOp::kMin, 1, greater), Type::kI32);
}

// A row of what moves along vectors, greater than a column of the rest.
int VectorMasks::is_positive(const std::vector<int64_t>& steps, int64_t constant) {
  int row = -1, column = -1;
  for (size_t a = 0; a < steps.size(); ++a) {
    if (steps[a] == 0) continue;
    const int axis = static_cast<int>(a);
    const bool along = axis == code_.vector_axis;
    const int64_t step = along ? steps[a] : -steps[a];
    int term = indices(axis);
    if (step != 1) term = scalar(ExprOp::kMul, static_cast<double>(step), term);
    if (along) row = term;
    else column = column < 0 ? term : combined(ExprOp::kAdd, column, term);
  }
  if (column < 0) column = this->constant(Type::kI32, static_cast<double>(-constant));
  else if (constant != 0) column = scalar(ExprOp::kAdd, static_cast<double>(-constant), column);
  if (row < 0) row = this->constant(Type::kI32, 0);
  return combined(ExprOp::kGt, row, column);
}

int VectorMasks::choose(int mask, const Choice& yes, const Choice& no, Type type) {
  const auto bits = [&](double number) {
    return type == Type::kF32 ? std::bit_cast<int32_t>(static_cast<float>(number))
                              : static_cast<int32_t>(number);
  };
  int chosen = -1;
  if (yes.value >= 0) chosen = words(ExprOp::kMul, yes.value, mask, type);
  else if (bits(yes.number) != 0) chosen = scaled_words(bits(yes.number), mask, type);
  int other = -1;
  if (no.value >= 0) {
    other = words(ExprOp::kMul, no.value, negated(mask), type);
  } else if (bits(no.number) != 0) {       // (mask - 1) * -bits, which wraps around
    const auto opposite = static_cast<int32_t>(-static_cast<uint32_t>(bits(no.number)));
    other = scaled_words(opposite, scalar(ExprOp::kAdd, -1, mask), type);
  }
  if (chosen < 0) return other < 0 ? constant(type, 0) : other;
  return other < 0 ? chosen : words(ExprOp::kAdd, chosen, other, type);
}

int VectorMasks::as_words(int value, Type type) {
  code_.ops.back().words = true;
  code_.values[static_cast<size_t>(value)].tile.type = type;
  return value;
}

int VectorMasks::words(ExprOp op, int a, int b, Type type) {
  return as_words(combined(op, a, b), type);
}

int VectorMasks::scaled_words(int32_t number, int value, Type type) {
  return as_words(scalar(ExprOp::kMul, number, value), type);
}

}  // namespace lw
