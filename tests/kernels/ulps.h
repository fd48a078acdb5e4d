// How far from the C library in a wider type a result is, and the arguments at which to ask.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>

namespace lw {

inline long double sigmoid(long double x) { return 1 / (1 + std::exp(-x)); }

// |got - want| in units of the last place of T at `want`; infinite where the kinds differ.
template <class T>
double ulps(T got, long double want) {
  const T rounded = static_cast<T>(want);
  if (std::isnan(rounded)) return std::isnan(got) ? 0 : INFINITY;
  if (std::isinf(rounded) || std::isinf(got)) {
    if (got == rounded) return 0;
    // One side of the overflow threshold or the other.
    const T big = std::numeric_limits<T>::max();
    const bool near =
        std::abs(got) >= big && std::abs(rounded) >= big && (got > 0) == (rounded > 0);
    return near ? 1 : INFINITY;
  }
  if (got == 0 && rounded == 0) return std::signbit(got) == std::signbit(rounded) ? 0 : INFINITY;
  const T size = std::max(std::abs(rounded), std::numeric_limits<T>::min());
  const int exponent = std::ilogb(size) - (std::numeric_limits<T>::digits - 1);
  return static_cast<double>(std::abs(static_cast<long double>(got) - want) /
                             std::ldexp(1.0L, exponent));
}

// All f32 arguments, or `step`-th ones with the neighbours of every binade's start.
inline std::function<bool(float*)> singles(uint32_t step) {
  uint64_t next = 0;
  return [next, step](float* x) mutable {
    if (next > UINT32_MAX) return false;
    *x = std::bit_cast<float>(static_cast<uint32_t>(next));
    const bool near_binade = (next & 0x7fffff) < 3 || (next & 0x7fffff) > 0x7ffffc;
    const uint64_t to_edge = 0x7ffffd - std::min<uint64_t>(0x7ffffc, next & 0x7fffff);
    next += near_binade ? 1 : std::min<uint64_t>(step, to_edge);
    return true;
  };
}

}  // namespace lw
