// Types of values, each a row of one table, and the operations on them; docs/language.md says what
// they mean. Pure functions.
#pragma once

#include <bit>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace lw {

// New ones go to the end: their numbers are in the hashes of kernels.
enum class Type : uint8_t { kF64, kF32, kF16, kBF16, kI64, kI32, kI16, kI8, kU8, kBool };

enum class TypeKind : uint8_t { kFloat, kSigned, kUnsigned, kBool };

// What is particular to a type. How its values wrap and round, lie in memory and convert, which
// inputs it is tried on, and what LLVM and NumPy call it, follows.
struct TypeRow {
  Type type;
  std::string_view name;
  TypeKind kind;
  int bits;                                // of a value; memory holds whole bytes
  Type in_registers;                       // what computes instead of it
  // Of floats, in the layout of IEEE 754: the sign, the exponent, whose highest value is that of
  // infinities and NaNs, the fraction.
  int exponent_bits = 0, fraction_bits = 0;
  bool flushed = false;                    // subnormal numbers may count as zero
};
inline constexpr TypeRow kTypeRows[] = {
    {Type::kF64, "f64", TypeKind::kFloat, 64, Type::kF64, 11, 52},
    {Type::kF32, "f32", TypeKind::kFloat, 32, Type::kF32, 8, 23},
    {Type::kF16, "f16", TypeKind::kFloat, 16, Type::kF32, 5, 10},
    {Type::kBF16, "bf16", TypeKind::kFloat, 16, Type::kF32, 8, 7, true},
    {Type::kI64, "i64", TypeKind::kSigned, 64, Type::kI64},
    {Type::kI32, "i32", TypeKind::kSigned, 32, Type::kI32},
    {Type::kI16, "i16", TypeKind::kSigned, 16, Type::kI16},
    {Type::kI8, "i8", TypeKind::kSigned, 8, Type::kI8},
    {Type::kU8, "u8", TypeKind::kUnsigned, 8, Type::kU8},
    {Type::kBool, "bool", TypeKind::kBool, 1, Type::kBool},
};
inline constexpr int kTypes = static_cast<int>(std::size(kTypeRows));
constexpr const TypeRow& row_of(Type type) { return kTypeRows[static_cast<int>(type)]; }
static_assert([] {
  for (int i = 0; i < kTypes; ++i) {
    if (kTypeRows[i].type != static_cast<Type>(i)) return false;
  }
  return true;
}());

constexpr int size_of(Type type) { return (row_of(type).bits + 7) / 8; }  // bytes
constexpr bool is_float(Type type) { return row_of(type).kind == TypeKind::kFloat; }
constexpr bool is_signed(Type type) { return row_of(type).kind == TypeKind::kSigned; }
// What registers compute in; the types that are not their own only move and convert.
constexpr Type register_type(Type type) { return row_of(type).in_registers; }
constexpr bool is_narrow(Type type) { return register_type(type) != type; }
constexpr std::string_view type_name(Type type) { return row_of(type).name; }
bool parse_type(std::string_view name, Type* type);

// The exponents of normal numbers, the smallest and largest of these. REQUIRE: a float type.
constexpr int max_exponent(Type type) { return (1 << (row_of(type).exponent_bits - 1)) - 1; }
constexpr int min_exponent(Type type) { return 1 - max_exponent(type); }
constexpr double power_of_two(int exponent) {  // a normal f64
  return std::bit_cast<double>(static_cast<uint64_t>(1023 + exponent) << 52);
}
constexpr double smallest_normal(Type type) { return power_of_two(min_exponent(type)); }
constexpr double largest_finite(Type type) {
  return (2 - power_of_two(-row_of(type).fraction_bits)) * power_of_two(max_exponent(type));
}

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
