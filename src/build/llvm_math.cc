// Elementary functions as vector code: no tables, no branches; llvm_calls.cc says where it stands
// inline. Polynomials are minimax fits (Remez exchange on the reduced range). Denormal arguments
// and results are honoured, infinities too; the result for a NaN is a NaN except from pow. Largest
// errors in units in the last place over all arguments (tests/kernels/math_test.cc checks them; "no FMA"
// is SSE2):
//                 f32    f32 no FMA    f64    f64 no FMA
//   exp           1      1.5           1      1.5
//   log           1      1.5           1      1
//   tanh          2.5    3             3      3
//   sigmoid       2.5    2.5           2.5    2.5
//   erf           4      5             2      2
//   pow           1      1             2      2
//   rsqrt         1.5    1.5           1.5    1.5     (1 / sqrt; sqrt itself is exactly rounded)
// exp of 16 f32 lanes on AVX-512 is 13 operations, erf 19 without a division.
//
// pow of f32 goes through f64. pow of f64 carries the logarithm as a sum of two doubles, since its
// error is multiplied by up to 745.
#include <array>
#include <cmath>
#include <span>

#include "llvm/IR/IntrinsicsX86.h"
#include "schedules/targets/cpu/cpu_target.h"
#include "src/base/check.h"
#include "src/build/llvm_emit.h"
#include "src/kernel/polynomials.h"

namespace lw {
namespace {

using llvm::Value;

// Constants and the few composite operations of one floating type.
class Math {
 public:
  Math(Ops* ops, llvm::Type* type)
      : ops_(*ops), b_(ops->builder()), type_(type), guard_(ops->builder()),
        single_(type->getScalarType()->isFloatTy()) {
    b_.clearFastMathFlags();  // every fma below is meant, and no other
    llvm::Type* element = single_ ? b_.getInt32Ty() : b_.getInt64Ty();
    llvm::FixedVectorType* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
    lanes_ = lanes_of(type);
    integer_ = vector == nullptr ? element : llvm::FixedVectorType::get(element, lanes_);
  }

  Value* unary(ExprOp op, Value* a) {
    switch (op) {
      case ExprOp::kExp: return exp(a, nullptr);
      case ExprOp::kLog: return log(a);
      case ExprOp::kSqrt: return b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, a);
      case ExprOp::kRsqrt:
        return b_.CreateFDiv(number(1), b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, a));
      case ExprOp::kTanh: return tanh(a);
      case ExprOp::kErf: return single_ ? erf32(a) : erf64(a);
      case ExprOp::kSigmoid: return sigmoid(a);
      default: CHECK(false && "no such function");
    }
    return nullptr;
  }

  Value* pow(Value* x, Value* y);

 private:
  // A sum of two doubles, the second below half a unit in the last place of the first.
  struct Pair {
    Value* high;
    Value* low;
  };

  Value* number(double value) { return llvm::ConstantFP::get(type_, value); }
  Value* bits(uint64_t value) { return llvm::ConstantInt::get(integer_, value); }
  Value* as_bits(Value* a) { return b_.CreateBitCast(a, integer_); }
  Value* as_number(Value* a) { return b_.CreateBitCast(a, type_); }
  Value* add(Value* a, Value* b) { return b_.CreateFAdd(a, b); }
  Value* sub(Value* a, Value* b) { return b_.CreateFSub(a, b); }
  Value* mul(Value* a, Value* b) { return b_.CreateFMul(a, b); }
  Value* fma(Value* a, Value* b, Value* c) { return ops_.fma(Type::kF64, a, b, c); }
  Value* abs(Value* a) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, a); }
  // The variable stands second: x86's minimum then passes its NaN on.
  Value* at_most(double limit, Value* a) {
    return b_.CreateSelect(b_.CreateFCmpOLT(number(limit), a), number(limit), a);
  }
  Value* at_least(double limit, Value* a) {
    return b_.CreateSelect(b_.CreateFCmpOGT(number(limit), a), number(limit), a);
  }
  Value* with_sign(Value* size, Value* sign) {
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, size, sign);
  }
  Value* horner(Value* x, std::span<const double> coefficients) {
    Value* sum = number(coefficients[0]);
    for (double c : coefficients.subspan(1)) sum = fma(sum, x, number(c));
    return sum;
  }

  int mantissa() const { return single_ ? 23 : 52; }
  uint64_t one_bits() const { return single_ ? 0x3f800000 : 0x3ff0000000000000; }
  // Adding it puts the nearest integer into the low bits of the sum.
  double magic() const { return single_ ? 0x1.8p23 : 0x1.8p52; }

  // 2^n for an n in the range of normal exponents that stands in the low bits of an integer.
  Value* power_of_two(Value* n) {
    return as_number(b_.CreateAdd(b_.CreateShl(n, mantissa()), bits(one_bits())));
  }

  // n = x / ln 2 rounded, which comes in the low bits of `magic` + n, and r = x - n ln 2.
  struct Reduced {
    Value *shifted, *n, *r;
  };
  Reduced reduce(Value* x) {
    Reduced result;
    result.shifted = fma(x, number(1.4426950408889634), number(magic()));
    result.n = sub(result.shifted, number(magic()));
    result.r = fma(result.n, number(single_ ? -kLn2High32 : -kLn2High64), x);
    result.r = fma(result.n, number(single_ ? -kLn2Low32 : -kLn2Low64), result.r);
    return result;
  }

  std::span<const double> exp_coefficients() const {
    return single_ ? std::span<const double>(kExp32) : std::span<const double>(kExp64);
  }

  Value* scale(Value* p, const Reduced& by);
  Value* scale_natively(Value* p, Value* n);
  Value* exp(Value* x, Value* low);
  Value* exp_above(Value* x, Value* low);
  Value* split(Value* x, Value** exponent);
  Value* log(Value* x);
  Value* tanh(Value* x);
  Value* sigmoid(Value* x);
  Value* erf32(Value* x);
  Value* erf_by_table(Value* size);
  Value* erf64(Value* x);

  Pair sum(Value* a, Value* b);
  Pair fast_sum(Value* a, Value* b);
  Pair product(Value* a, Value* b);
  Pair times(Pair a, Pair b);
  Pair log_pair(Value* x);

  Ops& ops_;
  llvm::IRBuilder<>& b_;
  llvm::Type* type_;
  llvm::IRBuilderBase::FastMathFlagGuard guard_;
  bool single_;
  unsigned lanes_;
  llvm::Type* integer_;
};

// ------------------------------------------------------------------------------ exp

// p * 2^n rounded once, also where it overflows or is denormal.
Value* Math::scale(Value* p, const Reduced& by) {
  const unsigned native = single_ ? 16 : 8;
  if (ops_.has("avx512f") && lanes_ >= native && lanes_ % native == 0)
    return scale_natively(p, by.n);
  // In two steps, whose product alone may be out of range. Above the low bits there are zeros, half
  // of `magic` included, up to those that the shift to the exponent drops.
  Value* n = as_bits(by.shifted);
  Value* half = b_.CreateLShr(n, 1);
  return mul(mul(p, power_of_two(half)), power_of_two(b_.CreateSub(n, half)));
}

Value* Math::scale_natively(Value* p, Value* n) {
  const int native = single_ ? 16 : 8;
  const llvm::Intrinsic::ID id = single_ ? llvm::Intrinsic::x86_avx512_mask_scalef_ps_512
                                         : llvm::Intrinsic::x86_avx512_mask_scalef_pd_512;
  const auto part = [&](Value* a, unsigned from) {
    std::vector<int> mask(native);
    for (int i = 0; i < native; ++i) mask[i] = from + i;
    return lanes_ == static_cast<unsigned>(native) ? a : b_.CreateShuffleVector(a, mask);
  };
  Value* all = nullptr;
  for (unsigned from = 0; from < lanes_; from += native) {
    Value* a = part(p, from);
    Value* every_lane = llvm::ConstantInt::getSigned(b_.getIntNTy(native), -1);
    Value* scaled = b_.CreateIntrinsic(id, {}, {a, part(n, from), a, every_lane, b_.getInt32(4)});
    if (all == nullptr) {
      all = scaled;
      continue;
    }
    std::vector<int> widen(from + native, -1), join(from + native);
    for (int i = 0; i < native; ++i) widen[i] = i;
    for (unsigned i = 0; i < from + native; ++i) join[i] = i;
    Value* wide = b_.CreateShuffleVector(scaled, widen);
    for (unsigned i = from; i < from + native; ++i) join[i] = from + native + (i - from);
    std::vector<int> keep(from + native, -1);
    for (unsigned i = 0; i < from; ++i) keep[i] = i;
    all = b_.CreateShuffleVector(b_.CreateShuffleVector(all, keep), wide, join);
  }
  return all;
}

// e^(x + low); `low` may be null. The limits are where the result has become infinite, or zero.
Value* Math::exp(Value* x, Value* low) { return exp_above(at_most(single_ ? 89 : 710, x), low); }

// Of an x that is not above what has a result.
Value* Math::exp_above(Value* x, Value* low) {
  x = at_least(single_ ? -104 : -746, x);
  const Reduced by = reduce(x);
  Value* r = low == nullptr ? by.r : add(by.r, low);
  Value* q = horner(r, exp_coefficients());
  return scale(fma(fma(q, r, number(1)), r, number(1)), by);
}

// expm1(2|x|) / (expm1(2|x|) + 2), which does not cancel anywhere.
Value* Math::tanh(Value* x) {
  Value* size = abs(x);
  size = at_most(single_ ? 20 : 40, add(size, size));
  const Reduced by = reduce(size);
  Value* r = by.r;
  Value* q = horner(r, exp_coefficients());
  Value* power = power_of_two(as_bits(by.shifted));
  Value* p = fma(mul(r, r), q, r);                      // e^r - 1
  Value* e = fma(power, p, sub(power, number(1)));
  return with_sign(b_.CreateFDiv(e, add(e, number(2))), x);
}

Value* Math::sigmoid(Value* x) {
  Value* e = exp_above(b_.CreateFNeg(abs(x)), nullptr);
  Value* top = b_.CreateSelect(b_.CreateFCmpOLT(x, number(0)), e, number(1));
  return b_.CreateFDiv(top, add(e, number(1)));
}

// ------------------------------------------------------------------------------ log

// x = m 2^k with m in [sqrt(1/2), sqrt(2)): returns m - 1 and sets the exponent k.
Value* Math::split(Value* x, Value** exponent) {
  const uint64_t root = single_ ? 0x3f3504f3 : 0x3fe6a09e667f3bcd;
  const double smallest = single_ ? 0x1p-126 : 0x1p-1022;
  const double lift = single_ ? 25 : 54;
  Value* denormal = b_.CreateFCmpOLT(x, number(smallest));
  Value* normal = b_.CreateSelect(denormal, mul(x, number(std::exp2(lift))), x);
  Value* shifted = b_.CreateAdd(as_bits(normal), bits(one_bits() - root));
  // The biased exponent as the low bits of 2^mantissa, less both.
  const double base = single_ ? 0x1p23 : 0x1p52;
  const uint64_t base_bits = single_ ? 0x4b000000 : 0x4330000000000000;
  Value* k = as_number(b_.CreateOr(b_.CreateLShr(shifted, mantissa()), bits(base_bits)));
  const double bias = base + (single_ ? 127 : 1023);
  *exponent = sub(k, b_.CreateSelect(denormal, number(bias + lift), number(bias)));
  Value* m = b_.CreateAnd(shifted, bits((uint64_t{1} << mantissa()) - 1));
  return sub(as_number(b_.CreateAdd(m, bits(root))), number(1));
}

Value* Math::log(Value* x) {
  Value* k;
  Value* f = split(x, &k);
  Value* result;
  if (single_) {
    Value* z = mul(f, f);
    Value* y = mul(mul(f, z), horner(f, kLog32));
    y = fma(z, number(-0.5), fma(k, number(kLn2Low32), y));
    result = fma(k, number(kLn2High32), add(f, y));
  } else {
    Value* s = b_.CreateFDiv(f, add(f, number(2)));
    Value* z = mul(s, s);
    Value* half = mul(mul(f, f), number(0.5));
    Value* rest = fma(s, add(half, mul(z, horner(z, kLog64))), mul(k, number(kLn2Low64)));
    result = sub(mul(k, number(kLn2High64)), sub(sub(half, rest), f));
  }
  Value* infinity = number(INFINITY);
  result = b_.CreateSelect(b_.CreateFCmpOEQ(x, infinity), infinity, result);
  result = b_.CreateSelect(b_.CreateFCmpOEQ(x, number(0)), number(-INFINITY), result);
  return b_.CreateSelect(b_.CreateFCmpULT(x, number(0)), number(NAN), result);
}

// ------------------------------------------------------------------------------ erf

// Coefficients by power of erf around kErfStep * i, i < 16, for |t| <= h = kErfStep / 2: the Taylor
// series to t^7 (erf' = 2 / sqrt(pi) e^(-x^2); each further derivative from the two before), its
// two highest terms replaced by the lower ones that come nearest on [-h, h] (Chebyshev's
// economization).
constexpr double kErfStep = 33.0 / 128;    // 15.5 steps reach beyond where erf is 1 in f32
using ErfTables = std::array<std::array<float, 16>, 6>;

ErfTables erf_tables() {
  ErfTables tables;
  const double h2 = kErfStep * kErfStep / 4;
  for (int i = 0; i < 16; ++i) {
    const double x = kErfStep * i;
    double derivative[8] = {std::erf(x), 2 / std::sqrt(M_PI) * std::exp(-x * x)};
    derivative[2] = -2 * x * derivative[1];
    for (int n = 3; n < 8; ++n)
      derivative[n] = -2 * x * derivative[n - 1] - 2 * (n - 2) * derivative[n - 2];
    double c[8], factorial = 1;
    for (int n = 0; n < 8; ++n) {
      c[n] = derivative[n] / factorial;
      factorial *= n + 1;
    }
    c[5] += c[7] * h2 * 7 / 4;
    c[3] -= c[7] * h2 * h2 * 7 / 8;
    c[1] += c[7] * h2 * h2 * h2 * 7 / 64;
    c[4] += c[6] * h2 * 3 / 2;
    c[2] -= c[6] * h2 * h2 * 9 / 16;
    c[0] += c[6] * h2 * h2 * h2 / 32;
    for (int n = 0; n < 6; ++n) tables[n][i] = static_cast<float>(c[n]);
  }
  return tables;
}

Value* Math::erf32(Value* x) {
  Value* size = at_most(3.92428337, abs(x));
  if (ops_.has("avx512f") && lanes_ == 16) return with_sign(at_most(1, erf_by_table(size)), x);
  Value* u = fma(mul(size, size), number(0.129870129870), number(-1));
  return with_sign(at_most(1, mul(size, horner(u, kErf32))), x);
}

// Tables of 16 fit a register, from which lanes pick theirs in one instruction: a third of the
// polynomial's latency, which is what bounds an epilogue (a core's scheduler holds a few points).
Value* Math::erf_by_table(Value* size) {
  static const ErfTables tables = erf_tables();
  Value* shifted = fma(size, number(1 / kErfStep), number(magic()));
  Value* t = fma(sub(shifted, number(magic())), number(-kErfStep), size);
  Value* sum = nullptr;
  for (size_t n = tables.size(); n-- > 0;) {
    Value* table = llvm::ConstantDataVector::get(b_.getContext(), llvm::ArrayRef<float>(tables[n]));
    // The permutation looks at the low four bits only, which `shifted` holds.
    Value* c = b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_permvar_sf_512, {},
                                  {table, as_bits(shifted)});
    sum = sum == nullptr ? c : fma(sum, t, c);
  }
  return sum;
}

Value* Math::erf64(Value* x) {
  Value* size = at_most(6, abs(x));
  Value* square = mul(size, size);
  Value* near = mul(size, horner(square, kErf64));
  Value* t = b_.CreateFDiv(sub(size, number(3)), add(size, number(3)));
  Value* e = exp(b_.CreateFNeg(square), nullptr);
  Value* far = fma(b_.CreateFNeg(e), horner(t, kErfc64), number(1));
  return with_sign(b_.CreateSelect(b_.CreateFCmpOLT(size, number(1)), near, far), x);
}

// ------------------------------------------------------------------------------ pow

Math::Pair Math::sum(Value* a, Value* b) {
  Value* high = add(a, b);
  Value* back = sub(high, a);
  return {high, add(sub(a, sub(high, back)), sub(b, back))};
}

// REQUIRES: |a| >= |b| or a == 0.
Math::Pair Math::fast_sum(Value* a, Value* b) {
  Value* high = add(a, b);
  return {high, sub(b, sub(high, a))};
}

Math::Pair Math::product(Value* a, Value* b) {
  Value* high = mul(a, b);
  if (cpu(ops_.target()).fma) return {high, fma(a, b, b_.CreateFNeg(high))};
  // Dekker: halves of 26 bits have exact products.
  const auto halves = [&](Value* v) {
    Value* wide = mul(v, number(134217729.0));
    Value* top = sub(wide, sub(wide, v));
    return Pair{top, sub(v, top)};
  };
  const Pair x = halves(a), y = halves(b);
  Value* low = sub(mul(x.high, y.high), high);
  low = add(add(low, mul(x.high, y.low)), mul(x.low, y.high));
  return {high, add(low, mul(x.low, y.low))};
}

Math::Pair Math::times(Pair a, Pair b) {
  const Pair p = product(a.high, b.high);
  return fast_sum(p.high, add(p.low, add(mul(a.high, b.low), mul(a.low, b.high))));
}

// log(x) for x > 0, finite, to about 2^-64 of itself: 2 s + s^3 (2/3 + z W(z)) + k ln 2 in pairs.
Math::Pair Math::log_pair(Value* x) {
  Value* k;
  Value* f = split(x, &k);
  const Pair v = sum(number(2), f);
  Value* s_high = b_.CreateFDiv(f, v.high);
  const Pair back = product(s_high, v.high);
  Value* rest = sub(sub(sub(f, back.high), back.low), mul(s_high, v.low));
  const Pair s = {s_high, b_.CreateFDiv(rest, v.high)};
  const Pair z = times(s, s);
  Value* w = mul(z.high, horner(z.high, kPow64));
  const Pair factor = fast_sum(number(0x1.5555555555555p-1), add(w, number(0x1.5555555555555p-55)));
  const Pair tail = times(times(s, z), factor);
  Pair total = sum(mul(k, number(kLn2High64)), add(s.high, s.high));
  const Pair more = sum(total.high, tail.high);
  Value* low = add(add(total.low, more.low), add(tail.low, add(s.low, s.low)));
  return fast_sum(more.high, fma(k, number(kLn2Low64), low));
}

Value* Math::pow(Value* x, Value* y) {
  Value* size = abs(x);
  Value* infinity = number(INFINITY);
  const Pair log = log_pair(size);
  const Pair p = product(y, log.high);
  Value* low = fma(y, log.low, p.low);
  Value* tame = b_.CreateFCmpOLT(abs(p.high), number(1000));
  Value* result = exp(p.high, b_.CreateSelect(tame, low, number(0)));
  // Where the logarithm is infinite, or the exponent: 0, infinity, or 1 for 1.
  Value* y_negative = b_.CreateFCmpOLT(y, number(0));
  Value* grows = b_.CreateXor(b_.CreateFCmpOGT(size, number(1)), y_negative);
  Value* limit = b_.CreateSelect(grows, infinity, number(0));
  Value* special = b_.CreateOr(b_.CreateFCmpOEQ(size, infinity), b_.CreateFCmpOEQ(size, number(0)));
  special = b_.CreateOr(special, b_.CreateFCmpOEQ(abs(y), infinity));
  result = b_.CreateSelect(special, limit, result);
  result = b_.CreateSelect(b_.CreateFCmpOEQ(size, number(1)), number(1), result);
  // Negative bases: the sign of an odd integral power; nothing real for others.
  Value* whole = b_.CreateFCmpOEQ(ops_.unary(ExprOp::kFloor, Type::kF64, y), y);
  Value* half = mul(y, number(0.5));
  Value* odd = b_.CreateAnd(
      whole, b_.CreateFCmpONE(ops_.unary(ExprOp::kFloor, Type::kF64, half), half));
  Value* negative = b_.CreateICmpSLT(as_bits(x), bits(0));
  result = b_.CreateSelect(b_.CreateAnd(negative, odd), b_.CreateFNeg(result), result);
  Value* unreal = b_.CreateAnd(b_.CreateFCmpOLT(x, number(0)), b_.CreateNot(whole));
  unreal = b_.CreateAnd(unreal, b_.CreateFCmpONE(size, infinity));
  result = b_.CreateSelect(unreal, number(NAN), result);
  return b_.CreateSelect(b_.CreateFCmpOEQ(y, number(0)), number(1), result);
}

}  // namespace

static llvm::Value* one_math(ExprOp op, Ops* ops, llvm::Value* a, llvm::Value* b) {
  llvm::Type* type = a->getType();
  if (op != ExprOp::kPow) return Math(ops, type).unary(op, a);
  if (type->getScalarType()->isDoubleTy()) return Math(ops, type).pow(a, b);
  llvm::IRBuilder<>& builder = ops->builder();
  llvm::Type* wide = type->getWithNewType(builder.getDoubleTy());
  llvm::Value* x = builder.CreateFPExt(a, wide);
  llvm::Value* y = builder.CreateFPExt(b, wide);
  return builder.CreateFPTrunc(Math(ops, wide).pow(x, y), type);
}

llvm::Value* inline_math(ExprOp op, Ops* ops, llvm::Value* a, llvm::Value* b) {
  llvm::Value* result = one_math(op, ops, a, b);
  if (op != ExprOp::kSqrt && op != ExprOp::kRsqrt) mark_math(result);
  return result;
}

}  // namespace lw
