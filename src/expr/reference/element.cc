// Elements of every type in memory, and the conversions of the 16-bit floats. Conversions round to
// nearest, ties to even, straight from f64 where the source is f64 (through f32 they would round
// twice); NaN stays NaN.
#include "src/expr/element.h"

#include <cmath>
#include <cstring>

#include "src/expr/scalar.h"

namespace lw {
namespace {

// `value` rounded to a float with `bits` of precision (leading one included), whose normal numbers
// start at 2^min_exponent and end below 2^(max_exponent + 1).
double round_binary(double value, int bits, int min_exponent, int max_exponent) {
  if (!std::isfinite(value) || value == 0) return value;
  int exponent = std::ilogb(value);
  if (exponent < min_exponent) exponent = min_exponent;
  double rounded = std::ldexp(round_half_even(std::ldexp(value, bits - 1 - exponent)),
                              exponent - (bits - 1));
  if (std::fabs(rounded) >= std::ldexp(1.0, max_exponent + 1))
    return std::copysign(INFINITY, value);
  return std::copysign(rounded, value);
}

uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}
float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

template <class T>
T load_as(const std::byte* data, int64_t index) {
  T value;
  std::memcpy(&value, data + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}
template <class T>
void store_as(std::byte* data, int64_t index, T value) {
  std::memcpy(data + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

}  // namespace

double round_f16(double value) { return round_binary(value, 11, -14, 15); }
double round_bf16(double value) { return round_binary(value, 8, -126, 127); }

float f16_to_f32(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = (half >> 10) & 31, mantissa = half & 1023;
  if (exponent == 31) return float_of(sign | 0x7f800000 | mantissa << 13);
  if (exponent) return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
  float value = std::ldexp(static_cast<float>(mantissa), -24);
  return sign ? -value : value;
}

uint16_t f32_to_f16(float value) {
  const uint16_t sign = static_cast<uint16_t>(bits_of(value) >> 16 & 0x8000);
  if (std::isnan(value)) return sign | 0x7e00;
  const double magnitude = std::fabs(round_f16(value));
  if (std::isinf(magnitude)) return sign | 0x7c00;
  if (magnitude < 0x1p-14) return sign | static_cast<uint16_t>(std::ldexp(magnitude, 24));
  const int exponent = std::ilogb(magnitude);
  const uint16_t mantissa = static_cast<uint16_t>(std::ldexp(magnitude, 10 - exponent)) & 1023;
  return static_cast<uint16_t>(sign | (exponent + 15) << 10 | mantissa);
}

float bf16_to_f32(uint16_t bits) { return float_of(static_cast<uint32_t>(bits) << 16); }

uint16_t f32_to_bf16(float value) {
  uint32_t bits = bits_of(value);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  bits += 0x7fff + (bits >> 16 & 1);  // carries into the exponent, up to infinity, as it should
  return static_cast<uint16_t>(bits >> 16);
}

double load_element(Type type, const std::byte* data, int64_t index) {
  switch (type) {
    case Type::kF64: return load_as<double>(data, index);
    case Type::kF32: return load_as<float>(data, index);
    case Type::kF16: return f16_to_f32(load_as<uint16_t>(data, index));
    case Type::kBF16: return bf16_to_f32(load_as<uint16_t>(data, index));
    default: return static_cast<double>(load_integer(type, data, index));
  }
}

int64_t load_integer(Type type, const std::byte* data, int64_t index) {
  switch (type) {
    case Type::kI64: return load_as<int64_t>(data, index);
    case Type::kI32: return load_as<int32_t>(data, index);
    case Type::kI16: return load_as<int16_t>(data, index);
    case Type::kI8: return load_as<int8_t>(data, index);
    case Type::kU8: return load_as<uint8_t>(data, index);
    case Type::kBool: return load_as<uint8_t>(data, index) != 0;
    default: return float_to_int(Type::kI64, load_element(type, data, index));
  }
}

void store_element(Type type, std::byte* data, int64_t index, double value) {
  switch (type) {
    case Type::kF64: return store_as<double>(data, index, value);
    case Type::kF32: return store_as<float>(data, index, static_cast<float>(value));
    case Type::kF16:
      return store_as<uint16_t>(data, index, f32_to_f16(static_cast<float>(round_f16(value))));
    case Type::kBF16:
      return store_as<uint16_t>(data, index, f32_to_bf16(static_cast<float>(round_bf16(value))));
    default: return store_integer(type, data, index, float_to_int(type, value));
  }
}

void store_integer(Type type, std::byte* data, int64_t index, int64_t value) {
  switch (type) {
    case Type::kI64: return store_as<int64_t>(data, index, value);
    case Type::kI32: return store_as<int32_t>(data, index, static_cast<int32_t>(value));
    case Type::kI16: return store_as<int16_t>(data, index, static_cast<int16_t>(value));
    case Type::kI8: return store_as<int8_t>(data, index, static_cast<int8_t>(value));
    case Type::kU8: return store_as<uint8_t>(data, index, static_cast<uint8_t>(value));
    case Type::kBool: return store_as<uint8_t>(data, index, value != 0);
    default: return store_element(type, data, index, static_cast<double>(value));
  }
}

}  // namespace lw
