#include "src/npu/function/numbers.h"

#include <cmath>
#include <limits>

namespace lw::npu {
namespace {

constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
constexpr int32_t kLeast = std::numeric_limits<int32_t>::min();

// round(a . b / 2^31), halves away from zero; the one product that does not fit is the largest.
int32_t high_multiply(int32_t a, int32_t b) {
  if (a == kLeast && b == kLeast) return kMost;
  const int64_t product = int64_t{a} * b;
  const int64_t nudge = product >= 0 ? int64_t{1} << 30 : 1 - (int64_t{1} << 30);
  return static_cast<int32_t>((product + nudge) / (int64_t{1} << 31));
}

// round(value / 2^exponent), halves away from zero.
int32_t divide_by_power(int32_t value, int exponent) {
  if (exponent > 31) return 0;
  const int64_t magnitude = value < 0 ? -int64_t{value} : value;
  const int64_t half = exponent == 0 ? 0 : int64_t{1} << (exponent - 1);
  const int64_t rounded = (magnitude + half) >> exponent;
  return static_cast<int32_t>(value < 0 ? -rounded : rounded);
}

}  // namespace

int32_t round_to_int(float value) {
  if (value != value) return 0;
  if (value >= 2147483648.0f) return kMost;
  if (value < -2147483648.0f) return kLeast;
  return static_cast<int32_t>(std::nearbyint(value));
}

Scale::Scale(float scale, Requant rule) : scale_(scale), rule_(rule) {
  if (rule == Requant::kF32Rne || !std::isfinite(scale) || scale == 0) return;
  const double mantissa = std::frexp(static_cast<double>(scale), &exponent_);
  int64_t q = std::llround(mantissa * 2147483648.0);
  if (q == int64_t{1} << 31) {             // 0.99999... rounds to one
    q /= 2;
    ++exponent_;
  }
  multiplier_ = static_cast<int32_t>(q);
}

int32_t Scale::apply(int32_t sum) const {
  if (rule_ == Requant::kF32Rne) return round_to_int(static_cast<float>(sum) * scale_);
  if (multiplier_ == 0) return 0;
  if (exponent_ <= 0) return divide_by_power(high_multiply(sum, multiplier_), -exponent_);
  // A larger shift than 31 leaves of any sum but 0 the largest number.
  const int shift = exponent_ > 31 ? 31 : exponent_;
  const int64_t shifted = int64_t{sum} * (int64_t{1} << shift);
  return high_multiply(clamp(shifted, kLeast, kMost), multiplier_);
}

}  // namespace lw::npu
