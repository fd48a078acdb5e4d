// What the machine's numbers are, bit for bit: bf16 and f32, rounding, requantisation.
//
// f32 arithmetic is IEEE 754 binary32 with round to nearest even, one operation at a time (this
// folder is compiled without contraction to FMA); whoever computes holds an `IeeeArithmetic`, so
// that subnormals are kept whatever mode the caller's thread is in. A result that is NaN is
// 0x7FC00000, since processors differ in which NaN they make.
//
// Sources: f32_rne is what Gemmini's and oneDNN's documents say of scaled outputs; tflite is
// gemmlowp's "saturating rounding doubling high multiply" and "rounding divide by a power of two"
// (the reference arithmetic of TensorFlow Lite's quantised operators). Pure; thread-safe.
#pragma once

#include <bit>
#include <cfenv>
#include <cstdint>

#include "src/npu/config.h"

namespace lw::npu {

// Default rounding and subnormals within a scope of a thread; the mode of before behind it.
class IeeeArithmetic {
 public:
  IeeeArithmetic() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~IeeeArithmetic() { std::fesetenv(&before_); }
  IeeeArithmetic(const IeeeArithmetic&) = delete;
  IeeeArithmetic& operator=(const IeeeArithmetic&) = delete;

 private:
  std::fenv_t before_;
};

inline constexpr uint32_t kNan = 0x7FC00000;

// Integers alone, so that no mode of the processor matters.
inline float from_bf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }
inline uint16_t to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return kNan >> 16;
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
// As a word of ACC.
inline uint32_t to_word(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return (bits & 0x7FFFFFFF) > 0x7F800000 ? kNan : bits;
}

// Two's complement sums that wrap; `overflows` counts those that did.
inline int32_t wrap(int64_t exact, int64_t* overflows) {
  const int32_t wrapped = static_cast<int32_t>(static_cast<uint32_t>(exact));
  *overflows += wrapped != exact;
  return wrapped;
}
inline int32_t clamp(int64_t value, int32_t lo, int32_t hi) {
  return static_cast<int32_t>(value < lo ? lo : value > hi ? hi : value);
}

// Half to even, into int32; NaN is 0.
int32_t round_to_int(float value);

// A scale as VE.REQ applies it. f32_rne: round_half_even(float(sum) . scale). tflite: the scale is
// q . 2^exponent with q = round(mantissa . 2^31); 0 if it is not finite.
class Scale {
 public:
  Scale(float scale, Requant rule);
  int32_t apply(int32_t sum) const;

 private:
  float scale_;
  Requant rule_;
  int32_t multiplier_ = 0;
  int exponent_ = 0;
};

// To i8: sat(zero_point + scaled sum), then into [lo, hi].
inline int8_t requantise(int32_t sum, const Scale& scale, int8_t zero_point, int8_t lo, int8_t hi) {
  const int32_t value = clamp(int64_t{scale.apply(sum)} + zero_point, -128, 127);
  return static_cast<int8_t>(clamp(value, lo, hi));
}

}  // namespace lw::npu
