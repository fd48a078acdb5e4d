// Elements of every type in memory. Pure functions.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "loopwright/type.h"

namespace lw {

// A float type that is narrower than f32. With sign and fraction in the places of f32's, only the
// exponent counts from elsewhere, but for subnormal numbers, which are multiples of the least: as
// integers, so that a caller's mode that has no subnormal f32 changes nothing. A type with f32's
// exponents is f32's upper part.
struct NarrowFloat {
  explicit NarrowFloat(Type type);
  float value(uint32_t bits) const {
    const uint32_t size = bits & (sign - 1), placed = size << lost;
    const uint32_t finite = size >= normal || is_upper_part()
                                ? placed + rebias
                                : std::bit_cast<uint32_t>(static_cast<float>(size) * least);
    const uint32_t found = size < infinity ? finite : placed | 0x7f800000;
    return std::bit_cast<float>(found | (bits & sign) << to_sign);
  }
  uint32_t bits(double value) const;       // rounded
  bool is_upper_part() const { return rebias == 0; }

  Type type;
  int lost, to_sign;                       // bits of f32's fraction; the sign's way to f32's
  uint32_t sign, infinity, normal;         // their bits; the least normal number's
  uint32_t rebias;                         // from its exponents to f32's, in their place
  float least;                             // positive number
};

// Element access in any type (integers converted to double; i64 beyond 2^53 loses bits).
double load_element(Type type, const std::byte* data, int64_t index);
void store_element(Type type, std::byte* data, int64_t index, double value);
// `count` elements, no truth values, `stride` apart, the first of which `data` points at, to `values`
// `step` apart.
void load_elements(Type type, const std::byte* data, int64_t stride, int64_t count, double* values,
                   int64_t step = 1);
int64_t load_integer(Type type, const std::byte* data, int64_t index);  // exact; integer types
void store_integer(Type type, std::byte* data, int64_t index, int64_t value);

// use(T()) for the C++ type T that memory holds elements as: of bool a byte, of the floats that are
// narrower than f32 the bits.
template <class Use>
constexpr auto in_memory(Type type, const Use& use) {
  switch (size_of(type)) {
    case 1: return is_signed(type) ? use(int8_t()) : use(uint8_t());
    case 2: return is_signed(type) ? use(int16_t()) : use(uint16_t());
    case 4:
      if (is_float(type)) return use(float());
      return is_signed(type) ? use(int32_t()) : use(uint32_t());
    default: return is_float(type) ? use(double()) : use(int64_t());
  }
}

}  // namespace lw
