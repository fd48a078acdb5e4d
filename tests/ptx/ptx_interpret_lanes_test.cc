// The PTX interpreter's instructions of single lanes, against the host's arithmetic.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "tests/ptx/ptx_text.h"

namespace lw {
namespace {

using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using s16 = int16_t;
using s32 = int32_t;
using s64 = int64_t;
using Wide = __int128;

template <class T>
void integer_type(const std::string& t) {
  const auto three = [&](const char* op) { return op + t + " %d, %a, %b;"; };
  expect_binary<T, T, T>(three("add."), [](T a, T b) { return T(Wide(a) + b); });
  expect_binary<T, T, T>(three("sub."), [](T a, T b) { return T(Wide(a) - b); });
  expect_binary<T, T, T>(three("mul.lo."), [](T a, T b) { return T(u64(a) * u64(b)); });
  expect_binary<T, T, T>(three("mul.hi."), [](T a, T b) {
    if (sizeof(T) == 8 && std::is_unsigned_v<T>) {
      return T(static_cast<unsigned __int128>(a) * b >> 64);
    }
    return T(Wide(a) * b >> (sizeof(T) * 8));
  });
  expect_binary<T, T, T>(three("min."), [](T a, T b) { return a < b ? a : b; });
  expect_binary<T, T, T>(three("max."), [](T a, T b) { return a > b ? a : b; });
  expect_binary<T, T, T>(three("div."), [](T a, T b) { return b == 0 ? T(-1) : T(Wide(a) / b); });
  expect_binary<T, T, T>(three("rem."), [](T a, T b) { return b == 0 ? a : T(Wide(a) % b); });
  expect_ternary<T, T, T, T>("mad.lo." + t + " %d, %a, %b, %c;",
                             [](T a, T b, T c) { return T(u64(a) * u64(b) + u64(c)); });
  expect_binary<T, T, u32>("shr." + t + " %d, %a, %b;", [](T a, u32 b) {
    if (b >= sizeof(T) * 8) return T(a < 0 ? -1 : 0);
    return T(a >> b);
  });
  const char* names[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  for (int i = 0; i < 6; ++i) {
    expect_binary<bool, T, T>(std::string("setp.") + names[i] + "." + t + " %d, %a, %b;",
                              [&](T a, T b) {
                                const bool want[] = {a == b, a != b, a<b, a <= b, a> b, a >= b};
                                return want[i];
                              });
  }
}

TEST(PtxInterpretLanes, integers) {
  integer_type<u16>("u16");
  integer_type<s16>("s16");
  integer_type<u32>("u32");
  integer_type<s32>("s32");
  integer_type<u64>("u64");
  integer_type<s64>("s64");
}

TEST(PtxInterpretLanes, products_and_signs) {
  expect_binary<u32, u16, u16>("mul.wide.u16 %d, %a, %b;", [](u16 a, u16 b) { return u32(a) * b; });
  expect_binary<s32, s16, s16>("mul.wide.s16 %d, %a, %b;", [](s16 a, s16 b) { return s32(a) * b; });
  expect_binary<u64, u32, u32>("mul.wide.u32 %d, %a, %b;", [](u32 a, u32 b) { return u64(a) * b; });
  expect_binary<s64, s32, s32>("mul.wide.s32 %d, %a, %b;", [](s32 a, s32 b) { return s64(a) * b; });
  expect_ternary<s64, s32, s32, s64>("mad.wide.s32 %d, %a, %b, %c;", [](s32 a, s32 b, s64 c) {
    return s64(u64(s64(a) * b) + u64(c));
  });
  expect_ternary<u64, u32, u32, u64>("mad.wide.u32 %d, %a, %b, %c;",
                                     [](u32 a, u32 b, u64 c) { return u64(a) * b + c; });
  expect_unary<s32, s32>("neg.s32 %d, %a;", [](s32 a) { return s32(-s64(a)); });
  expect_unary<s32, s32>("abs.s32 %d, %a;", [](s32 a) { return s32(a < 0 ? -s64(a) : a); });
  expect_unary<s64, s64>("neg.s64 %d, %a;", [](s64 a) { return s64(-Wide(a)); });
  expect_unary<s16, s16>("abs.s16 %d, %a;", [](s16 a) { return s16(a < 0 ? -a : a); });
  const auto clamp = [](s64 x) {
    return s32(std::min<s64>(std::max<s64>(x, INT32_MIN), INT32_MAX));
  };
  expect_binary<s32, s32, s32>("add.sat.s32 %d, %a, %b;",
                               [&](s32 a, s32 b) { return clamp(s64(a) + b); });
  expect_binary<s32, s32, s32>("sub.sat.s32 %d, %a, %b;",
                               [&](s32 a, s32 b) { return clamp(s64(a) - b); });
}

TEST(PtxInterpretLanes, bits) {
  expect_binary<u32, u32, u32>("and.b32 %d, %a, %b;", [](u32 a, u32 b) { return a & b; });
  expect_binary<u64, u64, u64>("or.b64 %d, %a, %b;", [](u64 a, u64 b) { return a | b; });
  expect_binary<u16, u16, u16>("xor.b16 %d, %a, %b;", [](u16 a, u16 b) { return u16(a ^ b); });
  expect_unary<u32, u32>("not.b32 %d, %a;", [](u32 a) { return ~a; });
  expect_unary<u32, u32>("xor.b32 %d, %a, -1;", [](u32 a) { return ~a; });
  expect_binary<u32, u32, u32>("shl.b32 %d, %a, %b;",
                               [](u32 a, u32 b) { return b > 31 ? 0 : a << b; });
  expect_binary<u64, u64, u32>("shl.b64 %d, %a, %b;",
                               [](u64 a, u32 b) { return b > 63 ? 0 : a << b; });
  expect_binary<u16, u16, u32>("shl.b16 %d, %a, %b;",
                               [](u16 a, u32 b) { return u16(b > 15 ? 0 : a << b); });
  expect_binary<u32, u32, u32>("shr.b32 %d, %a, %b;",
                               [](u32 a, u32 b) { return b > 31 ? 0 : a >> b; });
  expect_unary<u32, u32>("popc.b32 %d, %a;", [](u32 a) { return __builtin_popcount(a); });
  expect_unary<u32, u64>("popc.b64 %d, %a;", [](u64 a) { return __builtin_popcountll(a); });
  expect_unary<u32, u32>("clz.b32 %d, %a;", [](u32 a) { return a == 0 ? 32 : __builtin_clz(a); });
  expect_unary<u32, u64>("clz.b64 %d, %a;", [](u64 a) { return a == 0 ? 64 : __builtin_clzll(a); });
  expect_unary<u32, u32>("brev.b32 %d, %a;", [](u32 a) { return __builtin_bitreverse32(a); });
  expect_unary<u64, u64>("brev.b64 %d, %a;", [](u64 a) { return __builtin_bitreverse64(a); });
  // A table's index is the bits of a, b, c: 0xf0, 0xcc, 0xaa.
  expect_ternary<u32, u32, u32, u32>("lop3.b32 %d, %a, %b, %c, 0xca;",
                                     [](u32 a, u32 b, u32 c) { return (a & b) | (~a & c); });
}

TEST(PtxInterpretLanes, fields_of_bits) {
  const std::vector<u32> places = {0, 1, 5, 16, 24, 31, 32, 40, 255, 256 + 4},
                         values = {0, ~0u, 0x80000000, 0x12345678, 0xf00dcafe};
  expect_instruction<u32, u32, u32, u32>(
      "bfe.u32 %d, %a, %b, %c;",
      [](u32 a, u32 b, u32 c) {
        b &= 255, c &= 255;
        if (b > 31 || c == 0) return 0u;
        const u32 x = a >> b;
        return c > 31 ? x : x & ((1u << c) - 1);
      },
      values, places, places);
  expect_instruction<s32, s32, u32, u32>(
      "bfe.s32 %d, %a, %b, %c;",
      [](s32 a, u32 b, u32 c) {
        b &= 255, c &= 255;
        if (c == 0) return 0;
        const s64 x = s64(a) >> std::min(b, 63u);
        return c > 31 ? s32(x) : s32(s64(u64(x) << (64 - c)) >> (64 - c));
      },
      {0, -1, INT32_MIN, 0x12345678, -559038737}, places, places);
  expect_instruction<u32, u32, u32, u32>(
      "bfi.b32 %d, %a, 0x5a5a5a5a, %b, %c;",
      [](u32 a, u32 b, u32 c) {
        b &= 255, c &= 255;
        const u64 mask = b > 31 ? 0 : ((c > 31 ? u64(0xffffffff) : (u64(1) << c) - 1) << b);
        return u32((0x5a5a5a5a & ~mask) | ((u64(a) << std::min(b, 63u)) & mask));
      },
      values, places, places);
  for (const bool clamp : {false, true}) {
    for (const bool left : {false, true}) {
      expect_instruction<u32, u32, u32, u32>(
          concat("shf.", left ? "l." : "r.", clamp ? "clamp" : "wrap", ".b32 %d, %a, %b, %c;"),
          [&](u32 a, u32 b, u32 c) {
            const u32 n = clamp ? std::min(c, 32u) : c & 31;
            if (n == 32) return left ? a : b;
            if (n == 0) return left ? b : a;
            return left ? b << n | a >> (32 - n) : a >> n | b << (32 - n);
          },
          values, {0x11223344, 0xdeadbeef}, {0, 1, 8, 31, 32, 33, 64, 100});
    }
  }
  expect_instruction<u32, u32, u32, u32>(
      "prmt.b32 %d, %a, %b, %c;",
      [](u32 a, u32 b, u32 c) {
        u32 out = 0;
        for (int i = 0; i < 4; ++i) {
          const u32 pick = c >> 4 * i & 7;
          u32 byte = (pick < 4 ? a >> 8 * pick : b >> 8 * (pick - 4)) & 255;
          if (c >> 4 * i & 8) byte = byte > 127 ? 255 : 0;
          out |= byte << 8 * i;
        }
        return out;
      },
      values, {0x11f233f4, 0xdeadbeef}, {0x3210, 0x7654, 0x5410, 0x7632, 0xba98, 0x1234, 0xffff});
}

TEST(PtxInterpretLanes, dot_products_of_bytes) {
  const auto byte = [](u32 x, int i, bool sign) {
    return sign ? s64(int8_t(x >> 8 * i)) : s64(uint8_t(x >> 8 * i));
  };
  for (const bool sa : {false, true}) {
    for (const bool sb : {false, true}) {
      const std::string types = concat(sa ? ".s32" : ".u32", sb ? ".s32" : ".u32");
      expect_ternary<u32, u32, u32, u32>("dp4a" + types + " %d, %a, %b, %c;",
                                         [&](u32 a, u32 b, u32 c) {
                                           s64 sum = s32(c);
                                           for (int i = 0; i < 4; ++i) {
                                             sum += byte(a, i, sa) * byte(b, i, sb);
                                           }
                                           return u32(sum);
                                         });
      expect_ternary<u32, u32, u32, u32>(
          "dp2a.hi" + types + " %d, %a, %b, %c;", [&](u32 a, u32 b, u32 c) {
            const s64 low = sa ? s64(s16(a)) : s64(u16(a));
            const s64 high = sa ? s64(s16(a >> 16)) : s64(u16(a >> 16));
            return u32(s32(c) + low * byte(b, 2, sb) + high * byte(b, 3, sb));
          });
    }
  }
}

TEST(PtxInterpretLanes, predicates) {
  expect_binary<bool, u32, u32>(
      ".reg .pred %x, %y;\nsetp.lt.u32 %x, %a, 5;\nsetp.ne.and.u32 %y, %b, 3, !%x;\n"
      "xor.pred %d, %x, %y;",
      [](u32 a, u32 b) { return (a < 5) != (b != 3 && !(a < 5)); });
  expect_binary<u32, u32, u32>(
      ".reg .pred %x, %y, %z;\nsetp.lo.u32 %x|%y, %a, %b;\nnot.pred %z, %x;\nand.pred %z, %z, %y;\n"
      "@%z mov.b32 %d, 1;\n@!%z mov.b32 %d, 2;",
      [](u32 a, u32 b) { return a < b ? 2 : 1; });
  expect_binary<u32, u32, u32>(
      ".reg .pred %x, %y, %z;\nsetp.lt.u32 %x, %a, 9;\nsetp.lt.u32 %y, %b, 9;\n"
      "and.pred %z, !%x, %y;\nor.pred %z, %z, !%y;\nselp.b32 %d, 1, 0, !%z;",
      [](u32 a, u32 b) { return (!(a < 9) && b < 9) || !(b < 9) ? 0 : 1; });
  expect_binary<u32, u32, u32>(
      ".reg .pred %y;\nsetp.lo.u32 _|%y, %a, %b;\nselp.b32 %d, 2, 1, %y;",
      [](u32 a, u32 b) { return a < b ? 1 : 2; });
  expect_ternary<s32, s32, s32, s32>("slct.s32.s32 %d, %a, %b, %c;",
                                     [](s32 a, s32 b, s32 c) { return c >= 0 ? a : b; });
  expect_ternary<float, float, float, float>(
      "slct.f32.f32 %d, %a, %b, %c;", [](float a, float b, float c) { return c >= 0 ? a : b; });
}

TEST(PtxInterpretLanes, moves) {
  expect_unary<u32, u32>(".reg .b16 %l, %h;\nmov.b32 {%l, %h}, %a;\nmov.b32 %d, {%h, %l};",
                         [](u32 a) { return a << 16 | a >> 16; });
  expect_unary<u64, u64>(".reg .b32 %l, %h;\nmov.b64 {%l, %h}, %a;\nmov.b64 %d, {%h, %l};",
                         [](u64 a) { return a << 32 | a >> 32; });
  expect_unary<u64, u64>(
      ".reg .b16 %w<4>;\nmov.b64 {%w0, %w1, %w2, %w3}, %a;\nmov.b64 %d, {%w3, %w2, %w1, %w0};",
      [](u64 a) { return a << 48 | (a & 0xffff0000) << 16 | (a >> 16 & 0xffff0000) | a >> 48; });
  expect_unary<float, u32>("mov.b32 %d, %a;", [](u32 a) { return std::bit_cast<float>(a); });
  expect_unary<float, u32>("mov.f32 %d, 0f3F800000;", [](u32) { return 1.0f; });
  expect_unary<double, u32>("mov.f64 %d, 0dBFF0000000000000;", [](u32) { return -1.0; });
}

}  // namespace
}  // namespace lw
