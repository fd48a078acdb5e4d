// Elements of every type in memory, and the conversions of the 16-bit floats. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/expr/type.h"

namespace lw {

// f16/bf16 conversions, round to nearest even.
float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float value);
float bf16_to_f32(uint16_t bits);
uint16_t f32_to_bf16(float value);
double round_f16(double value);            // the nearest f16 (bf16), in one rounding
double round_bf16(double value);

// Element access in any type (integers converted to double; i64 beyond 2^53 loses bits).
double load_element(Type type, const std::byte* data, int64_t index);
void store_element(Type type, std::byte* data, int64_t index, double value);
int64_t load_integer(Type type, const std::byte* data, int64_t index);  // exact; integer types
void store_integer(Type type, std::byte* data, int64_t index, int64_t value);

}  // namespace lw
