// Types of values, and how reductions fold them. Pure functions.
#pragma once

#include <cstdint>
#include <string_view>

namespace lw {

enum class Type : uint8_t { kF64, kF32, kF16, kBF16, kI64, kI32, kI16, kI8, kU8, kBool };

int size_of(Type type);                    // bytes: 8 4 2 2 8 4 2 1 1 1
bool is_float(Type type);
std::string_view type_name(Type type);     // "f32", "bool", ...
bool parse_type(std::string_view name, Type* type);

enum class Reduce : uint8_t { kNone, kSum, kProd, kMax, kMin };

}  // namespace lw
