// Conversions: saturating float to integer, wrapping integers, and the floats narrower than f32,
// natively where the target has them (F16C, NEON; AVX512-BF16, which takes denormals as zeros) and
// by integer arithmetic elsewhere. All roundings are to nearest even; a NaN stays a NaN.
#include "src/base/check.h"
#include "src/build/llvm_emit.h"
#include "src/expr/scalar.h"

namespace lw {
namespace {

llvm::Type* like(llvm::Value* a, llvm::Type* element) {
  llvm::FixedVectorType* vector = llvm::dyn_cast<llvm::FixedVectorType>(a->getType());
  return vector == nullptr ? element
                           : llvm::FixedVectorType::get(element, vector->getNumElements());
}

// Of an f32.
constexpr int kFraction = row_of(Type::kF32).fraction_bits;
constexpr uint32_t kInfinity = 0x7f800000;
constexpr uint32_t power_bits(int exponent) {
  return static_cast<uint32_t>(max_exponent(Type::kF32) + exponent) << kFraction;
}

// Those that have f32's exponents are its upper bits.
bool is_upper_part(Type narrow) {
  return row_of(narrow).exponent_bits == row_of(Type::kF32).exponent_bits;
}

}  // namespace

llvm::Value* Ops::cast(Type to, Type from, llvm::Value* a) {
  if (to == from) return a;
  if (is_narrow(from)) return cast(to, Type::kF32, from_narrow(from, a));
  if (is_narrow(to)) {
    llvm::Value* single = a;
    // Through f32 without rounding twice: to odd first. (i64 goes through f64 for the same reason.)
    if (from == Type::kF64) single = round_to_odd(a);
    else if (from == Type::kI64 || from == Type::kI32)
      single = round_to_odd(cast(Type::kF64, from, a));
    else if (from != Type::kF32) single = cast(Type::kF32, from, a);
    return to_narrow(to, single);
  }
  llvm::Type* type = like(a, this->type(to, 1));
  if (is_float(from) && is_float(to)) return b_.CreateFPCast(a, type);
  if (is_float(from)) {
    llvm::Value* zero = llvm::Constant::getNullValue(a->getType());
    if (to == Type::kBool) return b_.CreateFCmpUNE(a, zero);
    if (to == Type::kI8 && a->getType()->isVectorTy()) return float_to_i8(a);
    return b_.CreateIntrinsic(
        is_signed(to) ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat,
        {type, a->getType()}, {a});
  }
  if (is_float(to))
    return is_signed(from) ? b_.CreateSIToFP(a, type) : b_.CreateUIToFP(a, type);
  if (to == Type::kBool) return b_.CreateIsNotNull(a);
  return is_signed(from) ? b_.CreateSExtOrTrunc(a, type) : b_.CreateZExtOrTrunc(a, type);
}

// What LLVM's saturating conversion gives, which takes vectors apart where the machine has none.
// (u8 and i16 go that way still: another code for them is another kRevision.)
llvm::Value* Ops::float_to_i8(llvm::Value* a) {
  const IntegerRange range = integer_range(Type::kI8);
  const auto constant = [&](int64_t x) {
    return llvm::ConstantFP::get(a->getType(), static_cast<double>(x));
  };
  llvm::Value* lo = constant(range.lo);
  llvm::Value* hi = constant(range.hi);
  a = b_.CreateSelect(b_.CreateFCmpORD(a, a), a, constant(0));
  a = b_.CreateSelect(b_.CreateFCmpOGT(a, lo), a, lo);
  a = b_.CreateSelect(b_.CreateFCmpOLT(a, hi), a, hi);
  return b_.CreateTrunc(b_.CreateFPToSI(a, like(a, b_.getInt32Ty())), like(a, b_.getInt8Ty()));
}

// The nearest f32 toward zero with its last bit set where that is inexact: rounding it once more,
// to fewer bits, gives what rounding the f64 directly would.
llvm::Value* Ops::round_to_odd(llvm::Value* a) {
  llvm::Type* i32 = like(a, b_.getInt32Ty());
  llvm::Type* f64 = a->getType();
  llvm::Value* near = b_.CreateFPTrunc(a, like(a, b_.getFloatTy()));
  llvm::Value* back = b_.CreateFPExt(near, f64);
  llvm::Value* bits = b_.CreateBitCast(near, i32);
  llvm::Value* too_far = b_.CreateFCmpOGT(b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, back),
                                          b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, a));
  bits = b_.CreateSub(bits, b_.CreateZExt(too_far, i32));
  bits = b_.CreateOr(bits, b_.CreateZExt(b_.CreateFCmpONE(back, a), i32));
  return b_.CreateBitCast(bits, near->getType());
}

llvm::Value* Ops::from_narrow(Type from, llvm::Value* a) {
  llvm::Type* f32 = like(a, b_.getFloatTy());
  if (from == Type::kF16 && has_half_conversions()) {
    return b_.CreateFPExt(b_.CreateBitCast(a, like(a, b_.getHalfTy())), f32);
  }
  const TypeRow& row = row_of(from);
  const uint32_t sign = 1u << (row.bits - 1);
  llvm::Type* i32 = like(a, b_.getInt32Ty());
  const auto constant = [&](uint32_t bits) { return llvm::ConstantInt::get(i32, bits); };
  llvm::Value* wide = b_.CreateZExt(a, i32);
  if (is_upper_part(from)) return b_.CreateBitCast(b_.CreateShl(wide, 32 - row.bits), f32);
  // Exponent and fraction moved into place and scaled, f16's by 2^112, which also makes denormals
  // right; the largest exponent becomes that of infinity.
  llvm::Value* size =
      b_.CreateShl(b_.CreateAnd(wide, constant(sign - 1)), kFraction - row.fraction_bits);
  const double scale = power_of_two(max_exponent(Type::kF32) - max_exponent(from));
  llvm::Value* scaled =
      b_.CreateFMul(b_.CreateBitCast(size, f32), llvm::ConstantFP::get(f32, scale));
  llvm::Value* bits = b_.CreateBitCast(scaled, i32);
  llvm::Value* special =
      b_.CreateICmpUGE(size, constant(((1u << row.exponent_bits) - 1) << kFraction));
  bits = b_.CreateSelect(special, b_.CreateOr(size, constant(kInfinity)), bits);
  bits = b_.CreateOr(bits, b_.CreateShl(b_.CreateAnd(wide, constant(sign)), 32 - row.bits));
  return b_.CreateBitCast(bits, f32);
}

llvm::Value* Ops::to_narrow(Type to, llvm::Value* a) {
  const TypeRow& row = row_of(to);
  llvm::Type* narrow = like(a, b_.getIntNTy(static_cast<unsigned>(row.bits)));
  if (to == Type::kF16 && has_half_conversions()) {
    return b_.CreateBitCast(b_.CreateFPTrunc(a, like(a, b_.getHalfTy())), narrow);
  }
  if (to == Type::kBF16 && has("avx512bf16") && a->getType()->isVectorTy()) {
    return b_.CreateBitCast(b_.CreateFPTrunc(a, like(a, b_.getBFloatTy())), narrow);
  }
  llvm::Type* i32 = like(a, b_.getInt32Ty());
  const auto constant = [&](uint32_t bits) { return llvm::ConstantInt::get(i32, bits); };
  const int lost = kFraction - row.fraction_bits;
  const uint32_t just_under_half = (1u << (lost - 1)) - 1;  // of the last place
  llvm::Value* all = b_.CreateBitCast(a, i32);
  if (is_upper_part(to)) {
    llvm::Value* odd = b_.CreateAnd(b_.CreateLShr(all, lost), constant(1));
    llvm::Value* rounded = b_.CreateAdd(b_.CreateAdd(all, constant(just_under_half)), odd);
    llvm::Value* quiet = b_.CreateOr(all, constant(0x400000));
    rounded = b_.CreateSelect(b_.CreateFCmpUNO(a, a), quiet, rounded);
    return b_.CreateTrunc(b_.CreateLShr(rounded, lost), narrow);
  }
  llvm::Value* size = b_.CreateAnd(all, constant(0x7fffffff));
  llvm::Value* sign =
      b_.CreateAnd(b_.CreateLShr(all, 32 - row.bits), constant(1u << (row.bits - 1)));
  // Normal results: rebias, add just under half of the last place (and the bit that makes ties
  // even).
  llvm::Value* odd = b_.CreateAnd(b_.CreateLShr(size, lost), constant(1));
  const uint32_t rebias = power_bits(-max_exponent(to));
  llvm::Value* normal = b_.CreateAdd(size, constant(just_under_half - rebias));
  normal = b_.CreateLShr(b_.CreateAdd(normal, odd), lost);
  // Denormal results: the last place of this power of two is that of the type's denormals.
  const int magic = min_exponent(to) + lost;
  llvm::Value* shifted = b_.CreateFAdd(b_.CreateBitCast(size, a->getType()),
                                       llvm::ConstantFP::get(a->getType(), power_of_two(magic)));
  llvm::Value* denormal = b_.CreateSub(b_.CreateBitCast(shifted, i32), constant(power_bits(magic)));
  llvm::Value* bits = b_.CreateSelect(
      b_.CreateICmpULT(size, constant(power_bits(min_exponent(to)))), denormal, normal);
  const uint32_t infinity = ((1u << row.exponent_bits) - 1) << row.fraction_bits;
  llvm::Value* huge = b_.CreateSelect(b_.CreateICmpUGT(size, constant(kInfinity)),
                                      constant(infinity | infinity >> 1), constant(infinity));
  bits = b_.CreateSelect(b_.CreateICmpUGE(size, constant(power_bits(max_exponent(to) + 1))), huge,
                         bits);
  return b_.CreateTrunc(b_.CreateOr(bits, sign), narrow);
}

}  // namespace lw
