// The operations on values of the types of loopwright/type.h; expr.h says what they mean. Pure
// functions.
#pragma once

#include <cstdint>
#include <string_view>

#include "loopwright/type.h"

namespace lw {

enum class ExprOp : uint8_t {
  kConst,   // value in `number` (floats) or `integer` (the rest)
  kAxis,    // `index`: position in Tensor::axes ++ Tensor::reduce_axes
  kRead,    // `index`: tensor; args: one integer Expr per dimension
  kPad,     // args: {kRead, fill value}
  kSelect,  // args: {condition (bool), then, else}
  kCast,    // to `type`
  // binary
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMod,
  kMin,
  kMax,
  kPow,
  kAnd,
  kOr,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,  // comparisons give kBool
  // unary
  kNeg,
  kNot,
  kAbs,
  kExp,
  kLog,
  kSqrt,
  kRsqrt,
  kTanh,
  kErf,
  kSigmoid,
  kFloor,
  kCeil,
  kRound,
};
// New ones go to the end: their numbers are in the hashes of kernels.
inline constexpr int kExprOps = static_cast<int>(ExprOp::kRound) + 1;

bool is_binary(ExprOp op);
bool is_unary(ExprOp op);
bool is_commutative(ExprOp op);            // add mul min max and or eq ne
std::string_view op_name(ExprOp op);       // "add", "exp", ...

}  // namespace lw
