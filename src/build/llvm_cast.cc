// Conversions: saturating float to integer, wrapping integers, and the 16-bit floats, natively
// where the target has them (F16C, NEON; AVX512-BF16, which takes denormals as zeros) and by
// integer arithmetic elsewhere. All roundings are to nearest even; a NaN stays a NaN.
#include "src/base/check.h"
#include "src/build/llvm_emit.h"

namespace lw {
namespace {

llvm::Type* like(llvm::Value* a, llvm::Type* element) {
  llvm::FixedVectorType* vector = llvm::dyn_cast<llvm::FixedVectorType>(a->getType());
  return vector == nullptr ? element
                           : llvm::FixedVectorType::get(element, vector->getNumElements());
}

}  // namespace

llvm::Value* Ops::cast(Type to, Type from, llvm::Value* a) {
  if (to == from) return a;
  if (from == Type::kF16) return cast(to, Type::kF32, from_half(a));
  if (from == Type::kBF16) {
    llvm::Value* wide = b_.CreateShl(b_.CreateZExt(a, like(a, b_.getInt32Ty())), 16);
    return cast(to, Type::kF32, b_.CreateBitCast(wide, like(a, b_.getFloatTy())));
  }
  if (to == Type::kF16 || to == Type::kBF16) {
    llvm::Value* single = a;
    // Through f32 without rounding twice: to odd first. (i64 goes through f64 for the same reason.)
    if (from == Type::kF64) single = round_to_odd(a);
    else if (from == Type::kI64 || from == Type::kI32)
      single = round_to_odd(cast(Type::kF64, from, a));
    else if (from != Type::kF32) single = cast(Type::kF32, from, a);
    return to == Type::kF16 ? to_half(single) : to_bfloat(single);
  }
  llvm::Type* type = like(a, this->type(to, 1));
  const bool from_unsigned = from == Type::kU8 || from == Type::kBool;
  if (is_float(from) && is_float(to)) return b_.CreateFPCast(a, type);
  if (is_float(from)) {
    llvm::Value* zero = llvm::Constant::getNullValue(a->getType());
    if (to == Type::kBool) return b_.CreateFCmpUNE(a, zero);
    return b_.CreateIntrinsic(
        to == Type::kU8 ? llvm::Intrinsic::fptoui_sat : llvm::Intrinsic::fptosi_sat,
        {type, a->getType()}, {a});
  }
  if (is_float(to)) return from_unsigned ? b_.CreateUIToFP(a, type) : b_.CreateSIToFP(a, type);
  if (to == Type::kBool) return b_.CreateIsNotNull(a);
  return from_unsigned ? b_.CreateZExtOrTrunc(a, type) : b_.CreateSExtOrTrunc(a, type);
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

llvm::Value* Ops::from_half(llvm::Value* a) {
  llvm::Type* f32 = like(a, b_.getFloatTy());
  if (has_half_conversions()) {
    return b_.CreateFPExt(b_.CreateBitCast(a, like(a, b_.getHalfTy())), f32);
  }
  // Exponent and mantissa moved into place and scaled by 2^112, which also makes denormals right;
  // the largest exponent becomes that of infinity.
  llvm::Type* i32 = like(a, b_.getInt32Ty());
  const auto constant = [&](uint32_t bits) { return llvm::ConstantInt::get(i32, bits); };
  llvm::Value* wide = b_.CreateZExt(a, i32);
  llvm::Value* size = b_.CreateShl(b_.CreateAnd(wide, constant(0x7fff)), 13);
  llvm::Value* scaled =
      b_.CreateFMul(b_.CreateBitCast(size, f32), llvm::ConstantFP::get(f32, 0x1p112));
  llvm::Value* bits = b_.CreateBitCast(scaled, i32);
  llvm::Value* special = b_.CreateICmpUGE(size, constant(0x7c00u << 13));
  bits = b_.CreateSelect(special, b_.CreateOr(size, constant(0x7f800000)), bits);
  bits = b_.CreateOr(bits, b_.CreateShl(b_.CreateAnd(wide, constant(0x8000)), 16));
  return b_.CreateBitCast(bits, f32);
}

llvm::Value* Ops::to_half(llvm::Value* a) {
  llvm::Type* i16 = like(a, b_.getInt16Ty());
  if (has_half_conversions()) {
    return b_.CreateBitCast(b_.CreateFPTrunc(a, like(a, b_.getHalfTy())), i16);
  }
  llvm::Type* i32 = like(a, b_.getInt32Ty());
  const auto constant = [&](uint32_t bits) { return llvm::ConstantInt::get(i32, bits); };
  llvm::Value* all = b_.CreateBitCast(a, i32);
  llvm::Value* size = b_.CreateAnd(all, constant(0x7fffffff));
  llvm::Value* sign = b_.CreateAnd(b_.CreateLShr(all, 16), constant(0x8000));
  // Normal results: rebias, add just under half of the last place (and the bit that makes ties
  // even).
  llvm::Value* odd = b_.CreateAnd(b_.CreateLShr(size, 13), constant(1));
  llvm::Value* normal = b_.CreateAdd(size, constant(0xfff - (112u << 23)));
  normal = b_.CreateLShr(b_.CreateAdd(normal, odd), 13);
  // Denormal results: the unit of 0.5 is the last place of a half's denormals.
  llvm::Value* shifted = b_.CreateFAdd(b_.CreateBitCast(size, a->getType()),
                                       llvm::ConstantFP::get(a->getType(), 0.5));
  llvm::Value* denormal = b_.CreateSub(b_.CreateBitCast(shifted, i32), constant(126u << 23));
  llvm::Value* bits =
      b_.CreateSelect(b_.CreateICmpULT(size, constant(113u << 23)), denormal, normal);
  llvm::Value* huge = b_.CreateSelect(b_.CreateICmpUGT(size, constant(0x7f800000)),
                                      constant(0x7e00), constant(0x7c00));
  bits = b_.CreateSelect(b_.CreateICmpUGE(size, constant(143u << 23)), huge, bits);
  return b_.CreateTrunc(b_.CreateOr(bits, sign), i16);
}

llvm::Value* Ops::to_bfloat(llvm::Value* a) {
  llvm::Type* i16 = like(a, b_.getInt16Ty());
  if (has("avx512bf16") && a->getType()->isVectorTy()) {
    return b_.CreateBitCast(b_.CreateFPTrunc(a, like(a, b_.getBFloatTy())), i16);
  }
  llvm::Type* i32 = like(a, b_.getInt32Ty());
  const auto constant = [&](uint32_t bits) { return llvm::ConstantInt::get(i32, bits); };
  llvm::Value* bits = b_.CreateBitCast(a, i32);
  llvm::Value* odd = b_.CreateAnd(b_.CreateLShr(bits, 16), constant(1));
  llvm::Value* rounded = b_.CreateAdd(b_.CreateAdd(bits, constant(0x7fff)), odd);
  llvm::Value* quiet = b_.CreateOr(bits, constant(0x400000));
  rounded = b_.CreateSelect(b_.CreateFCmpUNO(a, a), quiet, rounded);
  return b_.CreateTrunc(b_.CreateLShr(rounded, 16), i16);
}

}  // namespace lw
