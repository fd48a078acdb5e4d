// Handlers of instructions that do one thing to each lane, from a function of one lane's values;
// and the choice of one by type.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "src/build/simt/ptx/interpreter/interpret_code.h"
#include "src/build/simt/ptx/interpreter/interpret_machine.h"

namespace lw::ptx_interpreter {

// op[0] = F(op[1], ...). F is a captureless lambda.
template <class D, class A, auto F>
void unary_lanes(Warp& w, const Instruction& in, uint32_t mask) {
  each_lane(mask, [&](int l) { w.set<D>(in.op[0], l, F(w.get<A>(in.op[1], l))); });
}
template <class D, class A, class B, auto F>
void binary_lanes(Warp& w, const Instruction& in, uint32_t mask) {
  each_lane(mask,
            [&](int l) { w.set<D>(in.op[0], l, F(w.get<A>(in.op[1], l), w.get<B>(in.op[2], l))); });
}
template <class D, class A, class B, class C, auto F>
void ternary_lanes(Warp& w, const Instruction& in, uint32_t mask) {
  each_lane(mask, [&](int l) {
    w.set<D>(in.op[0], l, F(w.get<A>(in.op[1], l), w.get<B>(in.op[2], l), w.get<C>(in.op[3], l)));
  });
}

// f.operator()<T>() of the C++ type; of none for others.
template <class F>
Handler by_integer(PtxType type, F&& f) {
  switch (type) {
    case PtxType::kU8: return f.template operator()<uint8_t>();
    case PtxType::kS8: return f.template operator()<int8_t>();
    case PtxType::kU16: return f.template operator()<uint16_t>();
    case PtxType::kS16: return f.template operator()<int16_t>();
    case PtxType::kU32: return f.template operator()<uint32_t>();
    case PtxType::kS32: return f.template operator()<int32_t>();
    case PtxType::kU64: return f.template operator()<uint64_t>();
    case PtxType::kS64: return f.template operator()<int64_t>();
    default: return nullptr;
  }
}
template <class F>
Handler by_bits(PtxType type, F&& f) {
  switch (bytes_of(type)) {
    case 1: return f.template operator()<uint8_t>();
    case 2: return f.template operator()<uint16_t>();
    case 4: return f.template operator()<uint32_t>();
    case 8: return f.template operator()<uint64_t>();
    default: return nullptr;
  }
}

// A GPU's f32 operations give one NaN only.
inline float canonical(float x) { return x != x ? std::bit_cast<float>(0x7fffffffu) : x; }
inline double canonical(double x) { return x; }
inline float flushed(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
}
inline double flushed(double x) { return x; }
template <bool kFlush, class T>
T maybe_flushed(T x) {
  return kFlush ? flushed(x) : x;
}

inline int32_t saturated(int64_t x) {
  return static_cast<int32_t>(std::clamp<int64_t>(x, std::numeric_limits<int32_t>::min(),
                                                  std::numeric_limits<int32_t>::max()));
}

// The formats of 16 bits. Narrowing rounds to the nearest, ties to even.
float from_half(uint16_t bits);
float from_bfloat(uint16_t bits);
enum class Rounding : uint8_t { kNearest, kZero, kDown, kUp };
uint16_t to_half(double value, Rounding rounding = Rounding::kNearest);
uint16_t to_bfloat(double value, Rounding rounding = Rounding::kNearest);
float to_float(double value, Rounding rounding = Rounding::kNearest);

}  // namespace lw::ptx_interpreter
