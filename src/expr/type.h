// Types of values, and the operations on them; expr.h says what they mean. Pure functions.
#pragma once

#include <cstdint>
#include <string_view>

namespace lw {

enum class Type : uint8_t { kF64, kF32, kF16, kBF16, kI64, kI32, kI16, kI8, kU8, kBool };

int size_of(Type type);                    // bytes: 8 4 2 2 8 4 2 1 1 1
bool is_float(Type type);
std::string_view type_name(Type type);     // "f32", "bool", ...
bool parse_type(std::string_view name, Type* type);

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

enum class Reduce : uint8_t { kNone, kSum, kProd, kMax, kMin };

}  // namespace lw
