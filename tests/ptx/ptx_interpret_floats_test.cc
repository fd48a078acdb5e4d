// The PTX interpreter's arithmetic of floats and its conversions, against the host's.
#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/ptx/ptx_text.h"

namespace lw {
namespace {

float ftz(float x) { return std::fabs(x) < 1.17549435e-38f ? std::copysign(0.0f, x) : x; }

template <class T>
void float_type(const std::string& t) {
  const auto three = [&](const char* op) { return op + t + " %d, %a, %b;"; };
  expect_binary<T, T, T>(three("add."), [](T a, T b) { return a + b; });
  expect_binary<T, T, T>(three("sub.rn."), [](T a, T b) { return a - b; });
  expect_binary<T, T, T>(three("mul.rn."), [](T a, T b) { return a * b; });
  expect_binary<T, T, T>(three("div.rn."), [](T a, T b) { return a / b; });
  expect_unary<T, T>("sqrt.rn." + t + " %d, %a;", [](T a) { return std::sqrt(a); });
  expect_unary<T, T>("rcp.rn." + t + " %d, %a;", [](T a) { return 1 / a; });
  expect_unary<T, T>("neg." + t + " %d, %a;", [](T a) { return -a; });
  expect_unary<T, T>("abs." + t + " %d, %a;", [](T a) { return std::fabs(a); });
  expect_binary<T, T, T>(three("copysign."), [](T a, T b) { return std::copysign(b, a); });
  const auto low = [](T a, T b) {
    return a != a ? b : b != b ? a : a < b ? a : b < a ? b : std::signbit(a) ? a : b;
  };
  const auto high = [](T a, T b) {
    return a != a ? b : b != b ? a : a < b ? b : b < a ? a : std::signbit(a) ? b : a;
  };
  expect_binary<T, T, T>(three("min."), low);
  expect_binary<T, T, T>(three("max."), high);
  expect_ternary<T, T, T, T>("fma.rn." + t + " %d, %a, %b, %c;",
                             [](T a, T b, T c) { return std::fma(a, b, c); });
  const char* names[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                         "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
  for (int i = 0; i < 14; ++i) {
    expect_binary<bool, T, T>(
        std::string("setp.") + names[i] + "." + t + " %d, %a, %b;", [&](T a, T b) {
          const bool nan = a != a || b != b;
          const bool want[] = {a == b,        !nan && a != b, a<b, a <= b, a> b,
                               a >= b,        nan || a == b,  nan || a != b,
                               nan || a < b,  nan || a <= b,  nan || a > b,
                               nan || a >= b, !nan,           nan};
          return want[i];
        });
  }
  const char* tests[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal"};
  for (int i = 0; i < 6; ++i) {
    expect_unary<bool, T>(std::string("testp.") + tests[i] + "." + t + " %d, %a;", [&](T a) {
      const bool want[] = {std::isfinite(a), std::isinf(a),
                           a == a,           a != a,
                           std::isnormal(a), std::isfinite(a) && a != 0 && !std::isnormal(a)};
      return want[i];
    });
  }
}

TEST(PtxInterpretFloats, arithmetic) {
  float_type<float>("f32");
  float_type<double>("f64");
}

TEST(PtxInterpretFloats, flushes_where_written) {
  using F = float;
  expect_binary<F, F, F>("add.ftz.f32 %d, %a, %b;", [](F a, F b) { return ftz(ftz(a) + ftz(b)); });
  expect_binary<F, F, F>("mul.rn.ftz.f32 %d, %a, %b;",
                         [](F a, F b) { return ftz(ftz(a) * ftz(b)); });
  expect_ternary<F, F, F, F>("fma.rn.ftz.f32 %d, %a, %b, %c;",
                             [](F a, F b, F c) { return ftz(std::fma(ftz(a), ftz(b), ftz(c))); });
  expect_binary<bool, F, F>("setp.lt.ftz.f32 %d, %a, %b;",
                            [](F a, F b) { return ftz(a) < ftz(b); });
  expect_binary<F, F, F>("max.ftz.NaN.f32 %d, %a, %b;", [](F a, F b) {
    if (a != a || b != b) return std::numeric_limits<F>::quiet_NaN();
    a = ftz(a), b = ftz(b);
    return a < b ? b : b < a ? a : std::signbit(a) ? b : a;
  });
  expect_binary<F, F, F>("min.NaN.f32 %d, %a, %b;", [](F a, F b) {
    if (a != a || b != b) return std::numeric_limits<F>::quiet_NaN();
    return a < b ? a : b < a ? b : std::signbit(a) ? a : b;
  });
}

TEST(PtxInterpretFloats, not_numbers_are_the_one_of_the_device) {
  expect_unary<uint32_t, float>(".reg .f32 %x;\nsub.f32 %x, %a, %a;\nmov.b32 %d, %x;",
                                [](float a) { return std::isfinite(a) ? 0u : 0x7fffffffu; });
}

TEST(PtxInterpretFloats, approximations) {
  using F = float;
  expect_unary<F, F>("ex2.approx.f32 %d, %a;", [](F a) { return std::exp2(a); });
  expect_unary<F, F>("ex2.approx.ftz.f32 %d, %a;", [](F a) { return ftz(std::exp2(ftz(a))); });
  expect_unary<F, F>("lg2.approx.ftz.f32 %d, %a;", [](F a) { return std::log2(ftz(a)); });
  expect_unary<F, F>("tanh.approx.f32 %d, %a;", [](F a) { return std::tanh(a); });
  expect_unary<F, F>("sin.approx.f32 %d, %a;", [](F a) { return std::sin(a); });
  expect_unary<F, F>("cos.approx.ftz.f32 %d, %a;", [](F a) { return std::cos(ftz(a)); });
  expect_unary<F, F>("rsqrt.approx.f32 %d, %a;", [](F a) { return F(1 / std::sqrt(double(a))); });
  expect_unary<F, F>("rcp.approx.ftz.f32 %d, %a;", [](F a) { return ftz(1 / ftz(a)); });
  expect_unary<F, F>("sqrt.approx.f32 %d, %a;", [](F a) { return std::sqrt(a); });
  expect_binary<F, F, F>("div.approx.f32 %d, %a, %b;", [](F a, F b) { return a / b; });
  expect_binary<F, F, F>("div.full.ftz.f32 %d, %a, %b;",
                         [](F a, F b) { return ftz(ftz(a) / ftz(b)); });
}

// The host's value of x by the rounding that `mode` is.
template <class T, class X>
T rounded_by(int mode, X x) {
  const int before = std::fegetround();
  std::fesetround(mode);
  volatile X input = x;
  volatile T out = static_cast<T>(input);
  std::fesetround(before);
  return out;
}

struct Mode {
  const char* name;
  int host;
};
constexpr Mode kModes[] = {
    {"rn", FE_TONEAREST}, {"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}};

template <class I>
void conversions_of(const std::string& t) {
  using Wide = __int128;
  const auto to_integer = [](double x, int mode, bool of_double) {
    if (x != x) {
      return of_double || sizeof(I) == 8 ? I(Wide(1) << (sizeof(I) * 8 - 1)) : I(0);
    }
    const int before = std::fegetround();
    std::fesetround(mode);
    volatile double input = x;
    const double r = std::nearbyint(input);
    std::fesetround(before);
    if (r <= double(std::numeric_limits<I>::min())) return std::numeric_limits<I>::min();
    if (r >= double(std::numeric_limits<I>::max())) return std::numeric_limits<I>::max();
    return I(r);
  };
  for (const Mode& m : kModes) {
    expect_unary<float, I>(concat("cvt.", m.name, ".f32.", t, " %d, %a;"),
                           [&](I a) { return a == 0 ? 0 : rounded_by<float>(m.host, a); });
    expect_unary<double, I>(concat("cvt.", m.name, ".f64.", t, " %d, %a;"),
                            [&](I a) { return a == 0 ? 0 : rounded_by<double>(m.host, a); });
    expect_unary<I, float>(concat("cvt.", m.name, "i.", t, ".f32 %d, %a;"),
                           [&](float a) { return to_integer(a, m.host, false); });
    expect_unary<I, double>(concat("cvt.", m.name, "i.", t, ".f64 %d, %a;"),
                            [&](double a) { return to_integer(a, m.host, true); });
  }
}

TEST(PtxInterpretFloats, conversions_with_integers) {
  conversions_of<uint16_t>("u16");
  conversions_of<int16_t>("s16");
  conversions_of<uint32_t>("u32");
  conversions_of<int32_t>("s32");
  conversions_of<uint64_t>("u64");
  conversions_of<int64_t>("s64");
}

TEST(PtxInterpretFloats, conversions_of_integers) {
  expect_unary<int64_t, int32_t>("cvt.s64.s32 %d, %a;", [](int32_t a) { return int64_t(a); });
  expect_unary<uint64_t, uint32_t>("cvt.u64.u32 %d, %a;", [](uint32_t a) { return uint64_t(a); });
  expect_unary<uint32_t, uint64_t>("cvt.u32.u64 %d, %a;", [](uint64_t a) { return uint32_t(a); });
  expect_unary<uint32_t, uint64_t>("cvt.sat.u32.s64 %d, %a;", [](uint64_t a) {
    return uint32_t(std::clamp<int64_t>(int64_t(a), 0, UINT32_MAX));
  });
  // Bytes live in wider registers, with their sign.
  expect_unary<int32_t, int32_t>("cvt.s32.s8 %d, %a;", [](int32_t a) { return int8_t(a); });
  expect_unary<int32_t, int32_t>("cvt.s8.s32 %d, %a;", [](int32_t a) { return int8_t(a); });
  expect_unary<uint32_t, int32_t>("cvt.u8.s32 %d, %a;", [](int32_t a) { return uint8_t(a); });
  expect_unary<int32_t, int32_t>("cvt.sat.s8.s32 %d, %a;",
                                 [](int32_t a) { return std::clamp(a, -128, 127); });
  expect_unary<uint32_t, int32_t>("cvt.sat.u8.s32 %d, %a;",
                                  [](int32_t a) { return std::clamp(a, 0, 255); });
  expect_unary<int16_t, int32_t>("cvt.sat.s16.s32 %d, %a;",
                                 [](int32_t a) { return int16_t(std::clamp(a, -32768, 32767)); });
  expect_unary<uint16_t, float>("cvt.rni.s8.f32 %d, %a;", [](float a) {
    return uint16_t(a != a ? 0 : int16_t(std::clamp(std::nearbyint(a), -128.0f, 127.0f)));
  });
}

TEST(PtxInterpretFloats, conversions_of_floats) {
  for (const Mode& m : kModes) {
    expect_unary<float, double>(concat("cvt.", m.name, ".f32.f64 %d, %a;"),
                                [&](double a) { return rounded_by<float>(m.host, a); });
    expect_unary<float, float>(concat("cvt.", m.name, "i.f32.f32 %d, %a;"), [&](float a) {
      std::fesetround(m.host);
      volatile float x = a;
      const float r = std::nearbyint(x);
      std::fesetround(FE_TONEAREST);
      return r;
    });
  }
  expect_unary<double, float>("cvt.f64.f32 %d, %a;", [](float a) { return double(a); });
  expect_unary<float, float>("cvt.sat.f32.f32 %d, %a;",
                             [](float a) { return a > 0 ? std::min(a, 1.0f) : 0.0f; });
  expect_unary<double, float>("cvt.ftz.f64.f32 %d, %a;", [](float a) { return double(ftz(a)); });
}

// To the nearest, ties to even, by the bits that fall away.
struct Bfloat {
  uint16_t bits;
  explicit Bfloat(float x) {
    const uint32_t all = std::bit_cast<uint32_t>(x);
    bits = static_cast<uint16_t>((all + 0x7fff + (all >> 16 & 1)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
};

// All halves there are.
template <class Half>
void halves(const std::string& t, const std::string& widen) {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  const auto value = [](uint16_t bits) { return static_cast<float>(std::bit_cast<Half>(bits)); };
  expect_instruction<float, uint16_t, uint32_t, uint32_t>(
      widen, [&](uint16_t a, uint32_t, uint32_t) { return value(a); }, all, {0}, {0});
  // Each one's middle to the next, and what is beside the middle.
  std::vector<float> between;
  for (uint32_t i = 0; i < 0x7c00; i += 37) {
    const float a = value(static_cast<uint16_t>(i)), b = value(static_cast<uint16_t>(i + 1));
    if (!std::isfinite(b)) continue;
    const float middle = a + (b - a) / 2;
    for (const float x : {a, middle, std::nextafter(middle, 1e38f), std::nextafter(middle, 0.0f)}) {
      between.push_back(x);
      between.push_back(-x);
    }
  }
  for (const float x : telling_values<float>()) between.push_back(x);
  const auto bits = [](float x) {
    return x != x ? uint16_t{0x7fff} : std::bit_cast<uint16_t>(static_cast<Half>(x));
  };
  expect_instruction<uint16_t, float, uint32_t, uint32_t>(
      concat("cvt.rn.", t, ".f32 %d, %a;"), [&](float a, uint32_t, uint32_t) { return bits(a); },
      between, {0}, {0});
  // The first source is the upper half.
  expect_instruction<uint32_t, float, float, uint32_t>(
      concat("cvt.rn.", t, "x2.f32 %d, %a, %b;"),
      [&](float a, float b, uint32_t) { return uint32_t{bits(a)} << 16 | bits(b); },
      telling_values<float>(), telling_values<float>(), {0});
}

TEST(PtxInterpretFloats, halves) {
  halves<_Float16>("f16", "cvt.f32.f16 %d, %a;");
  halves<Bfloat>("bf16", ".reg .b32 %w;\nmov.b32 %w, {0, %a};\nmov.b32 %d, %w;");
}

TEST(PtxInterpretFloats, tf32_rounds_ties_away) {
  const std::vector<uint32_t> values = {0,          0x3f800000, 0x3f801000, 0x3f800fff, 0x3f801001,
                                        0x3f803000, 0xbf801000, 0x7f7fffff, 0x7f800000, 0xff800000,
                                        0x007ff000, 0x00001000, 0x00000fff};
  expect_instruction<uint32_t, uint32_t, uint32_t, uint32_t>(
      ".reg .f32 %f;\nmov.b32 %f, %a;\ncvt.rna.tf32.f32 %d, %f;",
      [](uint32_t a, uint32_t, uint32_t) {
        if ((a & 0x7f800000) == 0x7f800000) return a;
        const uint32_t rest = a & 0x1fff;
        return (a - rest) + (rest >= 0x1000 ? 0x2000 : 0);
      },
      values, {0}, {0});
}

TEST(PtxInterpretFloats, fused_halves) {
  const auto half = [](float x) { return std::bit_cast<uint16_t>(static_cast<_Float16>(x)); };
  std::vector<uint32_t> values;
  for (const float x : {0.0f, 1.0f, -1.5f, 3.25f, 100.0f, 0.001f, 2049.0f, -65000.0f}) {
    values.push_back(uint32_t{half(x)} << 16 | half(x * 0.5f + 1));
  }
  expect_instruction<uint32_t, uint32_t, uint32_t, uint32_t>(
      "fma.rn.f16x2 %d, %a, %b, %c;",
      [&](uint32_t a, uint32_t b, uint32_t c) {
        uint32_t out = 0;
        for (int i = 0; i < 2; ++i) {
          const auto v = [&](uint32_t x) {
            return double(std::bit_cast<_Float16>(static_cast<uint16_t>(x >> 16 * i)));
          };
          out |= uint32_t{std::bit_cast<uint16_t>(static_cast<_Float16>(v(a) * v(b) + v(c)))}
                 << 16 * i;
        }
        return out;
      },
      values, values, values);
}

}  // namespace
}  // namespace lw
