// Elements of every type in memory, and the conversions of the floats narrower than f32. These
// round to nearest, ties to even, straight from f64 (through f32 they would round twice); NaN stays
// NaN.
#include "src/expr/element.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "src/expr/scalar.h"

namespace lw {
namespace {

double round_to_narrow(Type type, double value) {
  if (!std::isfinite(value)) return value;
  const int fraction = row_of(type).fraction_bits;
  if (std::fabs(value) < smallest_normal(type)) {
    const double least = power_of_two(min_exponent(type) - fraction);
    return std::copysign(round_half_even(value / least) * least, value);
  }
  // A carry out of the fraction goes to the exponent, as it should.
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const int lost = row_of(Type::kF64).fraction_bits - fraction;
  const uint64_t below_half = (uint64_t{1} << (lost - 1)) - 1, odd = bits >> lost & 1;
  const double rounded = std::bit_cast<double>((bits + below_half + odd) >> lost << lost);
  return std::fabs(rounded) > largest_finite(type) ? std::copysign(INFINITY, value) : rounded;
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

template <class T>
int64_t load_integer_as(const std::byte* data, int64_t index) {
  return static_cast<int64_t>(load_as<T>(data, index));
}
int64_t load_truth(const std::byte* data, int64_t index) {
  return load_as<uint8_t>(data, index) != 0;
}

// By Type: the interpreter of kernels has little else to do.
constexpr auto kIntegerLoads = [] {
  std::array<int64_t (*)(const std::byte*, int64_t), kTypes> loads{};
  for (size_t i = 0; i < loads.size(); ++i) {
    const Type type = kTypeRows[i].type;
    loads[i] = in_memory(type, [](auto zero) { return &load_integer_as<decltype(zero)>; });
    if (type == Type::kBool) loads[i] = load_truth;
  }
  return loads;
}();

}  // namespace

NarrowFloat::NarrowFloat(Type narrow)
    : type(narrow),
      lost(row_of(Type::kF32).fraction_bits - row_of(narrow).fraction_bits),
      to_sign(32 - row_of(narrow).bits),
      sign(1u << (row_of(narrow).bits - 1)),
      infinity(((1u << row_of(narrow).exponent_bits) - 1) << row_of(narrow).fraction_bits),
      normal(1u << row_of(narrow).fraction_bits),
      rebias(static_cast<uint32_t>(max_exponent(Type::kF32) - max_exponent(narrow))
             << row_of(Type::kF32).fraction_bits),
      least(static_cast<float>(
          power_of_two(min_exponent(narrow) - row_of(narrow).fraction_bits))) {}

uint32_t NarrowFloat::bits(double value) const {
  const uint32_t negative = std::signbit(value) ? sign : 0;
  const uint32_t quiet = normal >> 1;
  if (std::isnan(value) && is_upper_part()) {  // with its payload
    return std::bit_cast<uint32_t>(static_cast<float>(value)) >> to_sign | quiet;
  }
  if (std::isnan(value)) return negative | infinity | quiet;
  const float size = static_cast<float>(std::fabs(round_to(type, value)));
  if (std::isinf(size)) return negative | infinity;
  if (size < smallest_normal(type) && !is_upper_part()) {
    return negative | static_cast<uint32_t>(size / least);
  }
  return negative | (std::bit_cast<uint32_t>(size) - rebias) >> lost;
}

double round_to(Type type, double value) {
  if (type == Type::kF32) return static_cast<float>(value);
  return is_narrow(type) ? round_to_narrow(type, value) : value;
}

double load_element(Type type, const std::byte* data, int64_t index) {
  if (!is_float(type)) return static_cast<double>(load_integer(type, data, index));
  return in_memory(type, [&](auto zero) -> double {
    using T = decltype(zero);
    const T value = load_as<T>(data, index);
    if constexpr (std::is_floating_point_v<T>) return value;
    else return NarrowFloat(type).value(static_cast<uint32_t>(value));
  });
}

void load_elements(Type type, const std::byte* data, int64_t stride, int64_t count, double* values,
                   int64_t step) {
  const auto each = [&](auto zero, auto convert) {
    for (int64_t i = 0; i < count; ++i) {
      values[i * step] = convert(load_as<decltype(zero)>(data, i * stride));
    }
  };
  if (is_narrow(type)) {
    const NarrowFloat narrow(type);
    return each(uint16_t(), [&](uint16_t bits) { return narrow.value(bits); });
  }
  in_memory(type, [&](auto zero) {
    each(zero, [](auto value) { return static_cast<double>(value); });
  });
}

int64_t load_integer(Type type, const std::byte* data, int64_t index) {
  if (is_float(type)) return float_to_int(Type::kI64, load_element(type, data, index));
  return kIntegerLoads[static_cast<size_t>(type)](data, index);
}

void store_element(Type type, std::byte* data, int64_t index, double value) {
  if (!is_float(type)) return store_integer(type, data, index, float_to_int(type, value));
  in_memory(type, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_floating_point_v<T>) store_as(data, index, static_cast<T>(value));
    else store_as(data, index, static_cast<T>(NarrowFloat(type).bits(value)));
  });
}

void store_integer(Type type, std::byte* data, int64_t index, int64_t value) {
  if (is_float(type)) return store_element(type, data, index, static_cast<double>(value));
  in_memory(type, [&](auto zero) {
    store_as(data, index, static_cast<decltype(zero)>(type == Type::kBool ? value != 0 : value));
  });
}

}  // namespace lw
