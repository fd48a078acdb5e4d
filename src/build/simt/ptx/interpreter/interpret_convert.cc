// cvt: between all types of numbers; and the formats of 16 bits.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

#include "src/build/simt/ptx/interpreter/interpret_code.h"
#include "src/build/simt/ptx/interpreter/interpret_decode.h"
#include "src/build/simt/ptx/interpreter/interpret_lanes.h"
#include "src/build/simt/ptx/interpreter/interpret_machine.h"

#pragma STDC FP_CONTRACT OFF

namespace lw::ptx_interpreter {

float from_bfloat(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

float from_half(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  float value;
  if (exponent == 31) {
    value = mantissa != 0 ? std::numeric_limits<float>::quiet_NaN()
                          : std::numeric_limits<float>::infinity();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(mantissa), -24);
  } else {
    value = std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
  }
  return bits >> 15 ? -value : value;
}

namespace {

// The whole number by the given rounding.
double whole(double x, Rounding rounding) {
  switch (rounding) {
    case Rounding::kZero: return std::trunc(x);
    case Rounding::kDown: return std::floor(x);
    case Rounding::kUp: return std::ceil(x);
    case Rounding::kNearest: break;
  }
  // To even, whatever the host's mode is.
  const double down = std::floor(x), rest = x - down;
  if (rest < 0.5) return std::copysign(down, x);
  if (rest > 0.5) return std::copysign(down + 1, x);
  return std::copysign(std::fmod(down, 2) == 0 ? down : down + 1, x);
}

// Of a format with `precision` bits of significand, the least exponent of a normal number, and the
// largest finite number. Exact for f64 that is not near its own limits.
double narrowed(double x, int precision, int least_exponent, double largest, Rounding rounding) {
  if (x == 0 || x != x || std::isinf(x)) return x;
  const int exponent = std::max(std::ilogb(x), least_exponent);
  const int scale = exponent - (precision - 1);
  const double out = std::ldexp(whole(std::ldexp(x, -scale), rounding), scale);
  if (std::fabs(out) <= largest) return out;
  const bool stay = rounding == Rounding::kZero || (rounding == Rounding::kDown && x > 0) ||
                    (rounding == Rounding::kUp && x < 0);
  return std::copysign(stay ? largest : std::numeric_limits<double>::infinity(), x);
}

}  // namespace

float to_float(double value, Rounding rounding) {
  if (rounding == Rounding::kNearest) return static_cast<float>(value);
  return static_cast<float>(narrowed(value, 24, -126, std::numeric_limits<float>::max(), rounding));
}

uint16_t to_half(double value, Rounding rounding) {
  if (value != value) return 0x7fff;
  const double x = narrowed(value, 11, -14, 65504, rounding);
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const double size = std::fabs(x);
  if (std::isinf(x)) return sign | 0x7c00;
  if (size < std::ldexp(1.0, -14)) return sign | static_cast<uint16_t>(std::ldexp(size, 24));
  const int exponent = std::ilogb(size);
  const auto mantissa = static_cast<uint16_t>(std::ldexp(size, 10 - exponent));
  return static_cast<uint16_t>(sign | ((exponent + 15) << 10) | (mantissa & 1023));
}

uint16_t to_bfloat(double value, Rounding rounding) {
  if (value != value) return 0x7fff;
  const double largest = from_bfloat(0x7f7f);
  const auto x = static_cast<float>(narrowed(value, 8, -126, largest, rounding));
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16);
}

namespace {

using enum PtxType;

// flags of a conversion.
constexpr uint32_t kFlush = 1, kSaturate = 2, kWhole = 4;
// number[0]: source type, [1]: destination type, [2]: Rounding, [3]: bytes of the register.

double as_double(PtxType type, uint64_t bits, bool flush) {
  switch (type) {
    case kF16: return from_half(static_cast<uint16_t>(bits));
    case kBf16: return from_bfloat(static_cast<uint16_t>(bits));
    case kF32: {
      const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
      return flush ? flushed(x) : x;
    }
    default: return std::bit_cast<double>(bits);
  }
}

__int128 as_integer(PtxType type, uint64_t bits) {
  switch (type) {
    case kU8: return static_cast<uint8_t>(bits);
    case kS8: return static_cast<int8_t>(bits);
    case kU16: return static_cast<uint16_t>(bits);
    case kS16: return static_cast<int16_t>(bits);
    case kU32: return static_cast<uint32_t>(bits);
    case kS32: return static_cast<int32_t>(bits);
    case kU64: return bits;
    default: return static_cast<int64_t>(bits);
  }
}

__int128 least_of(PtxType type) {
  return is_signed(type) ? -(static_cast<__int128>(1) << (bytes_of(type) * 8 - 1)) : 0;
}
__int128 most_of(PtxType type) {
  return (static_cast<__int128>(1) << (bytes_of(type) * 8 - (is_signed(type) ? 1 : 0))) - 1;
}

// Extended to the register by the type's sign.
uint64_t in_register(__int128 value, PtxType type, int64_t bytes) {
  auto bits = static_cast<uint64_t>(value);
  const int own = bytes_of(type) * 8;
  if (own < 64) {
    bits &= (uint64_t{1} << own) - 1;
    if (is_signed(type) && (bits >> (own - 1) & 1)) bits |= ~uint64_t{0} << own;
  }
  return bytes >= 8 ? bits : bits & ((uint64_t{1} << bytes * 8) - 1);
}

uint64_t from_double(double x, PtxType to, Rounding rounding, bool flush) {
  switch (to) {
    case kF16: return to_half(x, rounding);
    case kBf16: return to_bfloat(x, rounding);
    case kF32: {
      const float out = to_float(x, rounding);
      return std::bit_cast<uint32_t>(canonical(flush ? flushed(out) : out));
    }
    default: return std::bit_cast<uint64_t>(x);
  }
}

// An integer of 64 bits has more digits than f64: the lowest ones only matter as being there.
double rounded_integer(__int128 value, PtxType to, Rounding rounding) {
  const bool negative = value < 0;
  auto size = static_cast<unsigned __int128>(negative ? -value : value);
  if (to == kF64) {
    if (size >> 53 == 0) return static_cast<double>(value);
    int shift = 0;
    while (size >> (shift + 53) != 0) ++shift;
    const auto kept = static_cast<uint64_t>(size >> shift);
    const auto rest = size - (static_cast<unsigned __int128>(kept) << shift);
    const auto half = static_cast<unsigned __int128>(1) << (shift - 1);
    bool up = rest > half || (rest == half && (kept & 1));
    if (rounding == Rounding::kZero) up = false;
    if (rounding == Rounding::kDown) up = negative && rest != 0;
    if (rounding == Rounding::kUp) up = !negative && rest != 0;
    const double out = std::ldexp(static_cast<double>(kept + up), shift);
    return negative ? -out : out;
  }
  // Sticky: odd in the lowest of the 53 bits.
  int shift = 0;
  while (size >> (shift + 53) != 0) ++shift;
  auto kept = static_cast<uint64_t>(size >> shift);
  if ((static_cast<unsigned __int128>(kept) << shift) != size) kept |= 1;
  const double out = std::ldexp(static_cast<double>(kept), shift);
  return negative ? -out : out;
}

void run_integer_to_integer(Warp& w, const Instruction& in, uint32_t mask) {
  const auto from = static_cast<PtxType>(in.number[0]), to = static_cast<PtxType>(in.number[1]);
  each_lane(mask, [&](int l) {
    __int128 value = as_integer(from, w.get<uint64_t>(in.op[1], l));
    if (in.flags & kSaturate) value = std::clamp(value, least_of(to), most_of(to));
    w.set<uint64_t>(in.op[0], l, in_register(value, to, in.number[3]));
  });
}

void run_integer_to_float(Warp& w, const Instruction& in, uint32_t mask) {
  const auto from = static_cast<PtxType>(in.number[0]), to = static_cast<PtxType>(in.number[1]);
  const auto rounding = static_cast<Rounding>(in.number[2]);
  each_lane(mask, [&](int l) {
    double x = rounded_integer(as_integer(from, w.get<uint64_t>(in.op[1], l)), to, rounding);
    if (in.flags & kSaturate) x = std::clamp(x, 0.0, 1.0);
    w.set<uint64_t>(in.op[0], l, from_double(x, to, rounding, false));
  });
}

void run_float_to_integer(Warp& w, const Instruction& in, uint32_t mask) {
  const auto from = static_cast<PtxType>(in.number[0]), to = static_cast<PtxType>(in.number[1]);
  const auto rounding = static_cast<Rounding>(in.number[2]);
  each_lane(mask, [&](int l) {
    const double x = as_double(from, w.get<uint64_t>(in.op[1], l), in.flags & kFlush);
    __int128 value = 0;
    if (x != x) {
      // Only where f64 or an integer of 64 bits takes part is a NaN not 0.
      if (from == kF64 || bytes_of(to) == 8) {
        value = static_cast<__int128>(1) << (bytes_of(to) * 8 - 1);
      }
    } else {
      const double r = whole(x, rounding);
      if (r <= static_cast<double>(least_of(to)))
        value = least_of(to);
      else if (r >= static_cast<double>(most_of(to)))
        value = most_of(to);
      else
        value = static_cast<__int128>(r);
    }
    w.set<uint64_t>(in.op[0], l, in_register(value, to, in.number[3]));
  });
}

void run_float_to_float(Warp& w, const Instruction& in, uint32_t mask) {
  const auto from = static_cast<PtxType>(in.number[0]), to = static_cast<PtxType>(in.number[1]);
  const auto rounding = static_cast<Rounding>(in.number[2]);
  const bool flush = in.flags & kFlush;
  each_lane(mask, [&](int l) {
    double x = as_double(from, w.get<uint64_t>(in.op[1], l), flush);
    if ((in.flags & kWhole) && x == x && !std::isinf(x)) x = whole(x, rounding);
    if (in.flags & kSaturate) x = x != x ? 0.0 : x > 1 ? 1.0 : x > 0 ? x : 0.0;
    w.set<uint64_t>(in.op[0], l, from_double(x, to, rounding, flush));
  });
}

// Two f32 into a pair: op[1] is the upper half. flags kWhole here: bf16. kSaturate: .relu.
void run_pair(Warp& w, const Instruction& in, uint32_t mask) {
  const auto rounding = static_cast<Rounding>(in.number[2]);
  each_lane(mask, [&](int l) {
    uint32_t out = 0;
    for (int part = 0; part < 2; ++part) {
      float x = w.get<float>(in.op[2 - part], l);
      if ((in.flags & kSaturate) && !(x > 0)) x = x != x ? x : 0;
      out |= uint32_t{in.flags & kWhole ? to_bfloat(x, rounding) : to_half(x, rounding)}
             << part * 16;
    }
    w.set<uint32_t>(in.op[0], l, out);
  });
}

// To the nearest of 10 bits of mantissa, ties away from 0: the other bits become 0.
void run_tf32(Warp& w, const Instruction& in, uint32_t mask) {
  each_lane(mask, [&](int l) {
    uint32_t bits = w.get<uint32_t>(in.op[1], l);
    if ((bits & 0x7f800000) != 0x7f800000)
      bits += 0x1000;
    else if (bits & 0x7fffff)
      bits = 0x7fffffff;
    w.set<uint32_t>(in.op[0], l, bits & ~uint32_t{0x1fff});
  });
}

bool digits_lost(PtxType to, PtxType from) {
  const auto rank = [](PtxType t) { return t == kF64 ? 3 : t == kF32 ? 2 : 1; };
  return rank(to) < rank(from);
}

}  // namespace

void decode_convert(Decoder& d) {
  const std::string_view by =
      d.take_any({"rni", "rzi", "rmi", "rpi", "rn", "rz", "rm", "rp", "rna"});
  const bool to_whole = by.size() == 3 && by[2] == 'i';
  Rounding rounding = Rounding::kNearest;
  if (by.size() >= 2) {
    rounding = by[1] == 'z'   ? Rounding::kZero
               : by[1] == 'm' ? Rounding::kDown
               : by[1] == 'p' ? Rounding::kUp
                              : Rounding::kNearest;
  }
  d.in.number[2] = static_cast<int64_t>(rounding);
  if (by == "rna") {
    d.take_type({kTf32});
    d.take_type({kF32});
    d.expect_operands(2);
    d.in.op[0] = d.destination(0, kTf32);
    d.in.op[1] = d.source(1, kF32);
    d.in.run = run_tf32;
    return;
  }
  const bool relu = d.take("relu");
  const bool flush = d.take("ftz"), saturate = d.take("sat");
  d.in.flags = (flush ? kFlush : 0) | (saturate || relu ? kSaturate : 0) | (to_whole ? kWhole : 0);
  const PtxType to = d.take_type(
      {kU8, kS8, kU16, kS16, kU32, kS32, kU64, kS64, kF16, kBf16, kF32, kF64, kF16x2, kBf16x2});
  if (to == kF16x2 || to == kBf16x2) {
    if ((by != "rn" && by != "rz") || flush || saturate) return d.unknown();
    d.take_type({kF32});
    d.expect_operands(3);
    d.in.op[0] = d.destination(0, to);
    d.in.op[1] = d.source(1, kF32);
    d.in.op[2] = d.source(2, kF32);
    if (to == kBf16x2) d.in.flags |= kWhole;
    d.in.run = run_pair;
    return;
  }
  if (relu) return d.unknown();
  const PtxType from =
      d.take_type({kU8, kS8, kU16, kS16, kU32, kS32, kU64, kS64, kF16, kBf16, kF32, kF64});
  d.expect_operands(2);
  if (!d.ok()) return;
  const bool single = from == kF32 || to == kF32;
  if (flush && !single) return d.fail(".ftz is of f32");
  // Before sm_90 bf16 is only made of f32.
  const bool simple_bfloat = to == kBf16 && from == kF32 && (by == "rn" || by == "rz") && !saturate;
  if (to == kBf16 && saturate) return d.unknown();
  const bool widens = from == kBf16 && to == kF32;
  if ((to == kBf16 || from == kBf16) && !simple_bfloat && !widens &&
      !(d.target_at_least(90) && d.version_at_least(78))) {
    return d.fail("bf16 has this from sm_90 and PTX 7.8 on");
  }
  d.in.number[0] = static_cast<int64_t>(from);
  d.in.number[1] = static_cast<int64_t>(to);
  d.in.op[0] = d.wide_destination(d.operand(0), to);
  d.in.op[1] = d.wide_source(d.operand(1), from);
  if (!d.ok()) return;
  d.in.number[3] = bytes_of(d.type_of(d.in.op[0]));
  if (is_integer(to) && is_integer(from)) {
    if (!by.empty()) return d.fail("a rounding stands between integers");
    if (saturate && least_of(to) <= least_of(from) && most_of(to) >= most_of(from)) {
      return d.fail("nothing can be out of range");
    }
    d.in.run = run_integer_to_integer;
  } else if (is_integer(to)) {
    if (!to_whole) return d.fail("the rounding .rni, .rzi, .rmi or .rpi is missing");
    d.in.run = run_float_to_integer;
  } else if (is_integer(from)) {
    if (by.empty() || to_whole) return d.fail("the rounding .rn, .rz, .rm or .rp is missing");
    d.in.run = run_integer_to_float;
  } else {
    if (to_whole && to != from) return d.fail("a rounding to integers stands between types");
    if (!to_whole && digits_lost(to, from) != !by.empty()) {
      return d.fail("a rounding is missing, or stands where none may");
    }
    d.in.run = run_float_to_float;
  }
}

}  // namespace lw::ptx_interpreter
