// The PTX interpreter's products of matrices, and how fragments get into registers.
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/ptx/ptx_text.h"

namespace lw {
namespace {

// Elements are what `mma` says of one format: how many bits, and the bits of a small integer.
struct Format {
  std::string name;
  int bits;
  uint32_t (*encode)(int);
};
uint32_t half_bits(int x) {
  return std::bit_cast<uint16_t>(static_cast<_Float16>(static_cast<float>(x)));
}
uint32_t bfloat_bits(int x) { return std::bit_cast<uint32_t>(static_cast<float>(x)) >> 16; }
// With low bits that the hardware does not read.
uint32_t tf32_bits(int x) { return std::bit_cast<uint32_t>(static_cast<float>(x)) | 0x5a5; }
uint32_t byte_bits(int x) { return static_cast<uint8_t>(x); }

// The registers of a warp from the tables of the PTX ISA's document ("Matrix Fragments for ..."),
// which for each register and lane say which row and column it holds: written out anew here.
std::vector<uint32_t> fragment_a(const std::vector<int>& a, int k, const Format& f) {
  const int per = 32 / f.bits, registers = k / per / 2;  // 16 rows in lanes of 8
  std::vector<uint32_t> out(static_cast<size_t>(registers) * 32);
  for (int lane = 0; lane < 32; ++lane) {
    const int group = lane >> 2, thread = lane % 4;
    for (int i = 0; i < registers * per; ++i) {
      const int block = i / per;  // a_i: its register
      const int row = block % 2 == 0 ? group : group + 8;
      const int column = thread * per + i % per + (block < 2 ? 0 : 4 * per);
      out[static_cast<size_t>(lane * registers + block)] |=
          f.encode(a[static_cast<size_t>(row * k + column)]) << i % per * f.bits;
    }
  }
  return out;
}
std::vector<uint32_t> fragment_b(const std::vector<int>& b, int k, const Format& f) {
  const int per = 32 / f.bits, registers = k / per / 4;
  std::vector<uint32_t> out(static_cast<size_t>(registers) * 32);
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < registers * per; ++i) {
      const int row = lane % 4 * per + i % per + (i < per ? 0 : 4 * per), column = lane >> 2;
      out[static_cast<size_t>(lane * registers + i / per)] |=
          f.encode(b[static_cast<size_t>(row * 8 + column)]) << i % per * f.bits;
    }
  }
  return out;
}

std::string registers_text(const char* name, int count) {
  std::string out = "{";
  for (int i = 0; i < count; ++i) out += concat(i == 0 ? "" : ", ", name, i);
  return out + "}";
}

// Loads A, B, C (4 words a lane) from p1, p2, p3, multiplies, and stores D in p0.
std::string product_text(const std::string& mma, int a, int b, int c, const std::string& c_type) {
  std::string body = R"(.reg .b32 %t, %a<4>, %b<2>;
.reg .b64 %p, %o;
.reg .)" + c_type + R"( %c<4>;
mov.u32 %t, %tid.x;
)";
  const auto each = [&](int p, const char* name, int count, bool store) {
    body += concat("ld.param.u64 %p, [p", p, "];\nmul.wide.u32 %o, %t, ", count * 4,
                   ";\nadd.u64 %p, %p, %o;\n");
    for (int i = 0; i < count; ++i) {
      body += store ? concat("st.global.b32 [%p+", i * 4, "], ", name, i, ";\n")
                    : concat("ld.global.b32 ", name, i, ", [%p+", i * 4, "];\n");
    }
  };
  each(1, "%a", a, false);
  each(2, "%b", b, false);
  each(3, "%c", c, false);
  const std::string cs = registers_text("%c", c);
  body += concat(mma, " ", cs, ", ", registers_text("%a", a), ", ", registers_text("%b", b), ", ",
                 cs, ";\n");
  each(0, "%c", c, true);
  return ptx_text(body, 4);
}

void expect_product(const std::string& mma, int k, const Format& fa, const Format& fb,
                    const std::string& c_type, bool half_sum = false) {
  Rng rng(3);
  const int least = fa.name == "u8" ? 0 : -8, least_b = fb.name == "u8" ? 0 : -8;
  std::vector<int> a(static_cast<size_t>(16 * k)), b(static_cast<size_t>(k * 8)), c(128);
  for (int& x : a) x = least + static_cast<int>(rng.below(16));
  for (int& x : b) x = least_b + static_cast<int>(rng.below(16));
  for (int& x : c) x = static_cast<int>(rng.below(200)) - 100;
  const std::vector<uint32_t> ra = fragment_a(a, k, fa), rb = fragment_b(b, k, fb);
  const bool integers = c_type == "s32";
  const auto sum_bits = [&](int x) {
    return integers ? static_cast<uint32_t>(x) : std::bit_cast<uint32_t>(static_cast<float>(x));
  };
  // c0, c1: row lane / 4; c2, c3: 8 below; columns 2 (lane % 4) and the next.
  std::vector<uint32_t> rc, want;
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const int row = (lane >> 2) + (i >= 2 ? 8 : 0), column = lane % 4 * 2 + (i & 1);
      int sum = c[static_cast<size_t>(row * 8 + column)];
      const int before = sum;
      for (int j = 0; j < k; ++j) {
        sum += a[static_cast<size_t>(row * k + j)] * b[static_cast<size_t>(j * 8 + column)];
      }
      if (!half_sum) {
        rc.push_back(sum_bits(before));
        want.push_back(sum_bits(sum));
      } else if (i % 2 == 0) {
        rc.push_back(half_bits(before));
        want.push_back(half_bits(sum));
      } else {
        rc.back() |= half_bits(before) << 16;
        want.back() |= half_bits(sum) << 16;
      }
    }
  }
  std::vector<uint8_t> out(want.size() * 4), ba = bytes_of_values(ra), bb = bytes_of_values(rb),
                                             bc = bytes_of_values(rc);
  PtxRun run;
  const auto count = [](const std::vector<uint32_t>& r) { return static_cast<int>(r.size() / 32); };
  const absl::Status status =
      run_ptx(product_text(mma, count(ra), count(rb), count(rc), half_sum ? "b32" : c_type), run,
              {&out, &ba, &bb, &bc});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(values_of_bytes<uint32_t>(out), want) << mma;
}

const Format kHalf = {"f16", 16, half_bits}, kBfloat = {"bf16", 16, bfloat_bits},
             kTf32 = {"tf32", 32, tf32_bits}, kSigned = {"s8", 8, byte_bits},
             kUnsigned = {"u8", 8, byte_bits};

TEST(PtxInterpretMatrix, products) {
  const auto mma = [](const std::string& rest) { return "mma.sync.aligned." + rest; };
  for (const Format& f : {kHalf, kBfloat}) {
    const std::string types = ".row.col.f32." + f.name + "." + f.name + ".f32";
    expect_product(mma("m16n8k16" + types), 16, f, f, "f32");
    expect_product(mma("m16n8k8" + types), 8, f, f, "f32");
  }
  expect_product(mma("m16n8k16.row.col.f16.f16.f16.f16"), 16, kHalf, kHalf, "f32", true);
  expect_product(mma("m16n8k8.row.col.f32.tf32.tf32.f32"), 8, kTf32, kTf32, "f32");
  expect_product(mma("m16n8k4.row.col.f32.tf32.tf32.f32"), 4, kTf32, kTf32, "f32");
  for (const Format& a : {kSigned, kUnsigned}) {
    for (const Format& b : {kSigned, kUnsigned}) {
      const std::string types = ".s32." + a.name + "." + b.name + ".s32";
      expect_product(mma("m16n8k32.row.col" + types), 32, a, b, "s32");
      expect_product(mma("m16n8k32.row.col.satfinite" + types), 32, a, b, "s32");
      expect_product(mma("m16n8k16.row.col" + types), 16, a, b, "s32");
    }
  }
}

TEST(PtxInterpretMatrix, products_of_doubles) {
  // A (8 x 4) and B (4 x 8) hold the numbers of their elements, C is 1.
  std::vector<uint8_t> out(64 * 8);
  PtxRun run;
  const absl::Status status = run_ptx(ptx_text(R"(.reg .b32 %l, %g, %t;
.reg .b64 %p, %o;
.reg .f64 %a, %b, %c<2>;
mov.u32 %l, %laneid;
shr.u32 %g, %l, 2;
and.b32 %t, %l, 3;
cvt.rn.f64.u32 %a, %l;
mad.lo.u32 %g, %t, 8, %g;
cvt.rn.f64.u32 %b, %g;
mov.f64 %c0, 0d3FF0000000000000;
mov.f64 %c1, %c0;
mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%c0, %c1}, {%a}, {%b}, {%c0, %c1};
ld.param.u64 %p, [p0];
mul.wide.u32 %o, %l, 16;
add.u64 %p, %p, %o;
st.global.v2.f64 [%p], {%c0, %c1};
)",
                                               1),
                                      run, {&out});
  ASSERT_TRUE(status.ok()) << status;
  const auto c = values_of_bytes<double>(out);
  for (int row = 0; row < 8; ++row) {
    for (int column = 0; column < 8; ++column) {
      double sum = 1;
      for (int k = 0; k < 4; ++k) sum += (row * 4 + k) * (k * 8 + column);
      EXPECT_EQ(c[static_cast<size_t>(row * 8 + column)], sum);
    }
  }
}

TEST(PtxInterpretMatrix, saturates_where_written) {
  const std::string text = R"(.reg .b32 %d, %a, %x, %y;
.reg .b64 %q, %o;
mov.b32 %a, 0x7f7f7f7f;
mov.u32 %x, 2147483000;
mma.sync.aligned.m16n8k32.row.col$.s32.s8.s8.s32 {%d, %x, %x, %x},
  {%a, %a, %a, %a}, {%a, %a}, {%x, %x, %x, %x};
ld.param.u64 %q, [p0];
mov.u32 %y, %tid.x;
mul.wide.u32 %o, %y, 4;
add.u64 %q, %q, %o;
st.global.b32 [%q], %d;
)";
  const auto with = [&](const std::string& modifier) {
    std::string copy = text;
    copy.replace(copy.find('$'), 1, modifier);
    return warp_result(copy)[3];
  };
  EXPECT_EQ(with(".satfinite"), 0x7fffffffu);
  EXPECT_EQ(with(""), 2147483000u + 32 * 127 * 127);
}

// Four matrices of 8 x 8 lie in shared memory, element (i, r, c) being 256 i + 16 r + c.
TEST(PtxInterpretMatrix, loads_of_fragments) {
  for (const bool transposed : {false, true}) {
    std::vector<uint8_t> out(512);
    PtxRun run;
    run.shared = 1024;
    const absl::Status status = run_ptx(
        ptx_text(concat(R"(.reg .b32 %l, %i, %r, %s, %v, %w, %d<4>;
.reg .b64 %p, %o;
.reg .pred %go;
mov.u32 %l, %laneid;
shr.u32 %i, %l, 3;
and.b32 %r, %l, 7;
mad.lo.u32 %v, %i, 256, 0;
mad.lo.u32 %v, %r, 16, %v;
mov.u32 %s, shared;
mad.lo.u32 %s, %l, 16, %s;
mad.lo.u32 %v, %v, 65537, 65536;
mov.u32 %w, 0;
L:
st.shared.b32 [%s], %v;
add.u32 %v, %v, 0x00020002;
add.u32 %s, %s, 4;
add.u32 %w, %w, 1;
setp.lt.u32 %go, %w, 4;
@%go bra L;
sub.u32 %s, %s, 16;
bar.sync 0;
ldmatrix.sync.aligned.m8n8.x4)",
                        transposed ? ".trans" : "", R"(.shared.b16 {%d0, %d1, %d2, %d3}, [%s];
ld.param.u64 %p, [p0];
mul.wide.u32 %o, %l, 16;
add.u64 %p, %p, %o;
st.global.v4.b32 [%p], {%d0, %d1, %d2, %d3};
ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%d0, %d1}, [%s];
movmatrix.sync.aligned.m8n8.trans.b16 %d2, %d1;
ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%d0, %d1}, [%s];
setp.ne.u32 %go, %d1, %d2;
@%go trap;
)"),
                 1, true),
        run, {&out});
    ASSERT_TRUE(status.ok()) << status;
    const auto d = values_of_bytes<uint16_t>(out);
    for (uint32_t lane = 0; lane < 32; ++lane) {
      for (uint32_t i = 0; i < 4; ++i) {
        for (uint32_t e = 0; e < 2; ++e) {
          const uint32_t one = lane / 4, other = lane % 4 * 2 + e;
          const uint32_t row = transposed ? other : one, column = transposed ? one : other;
          ASSERT_EQ(d[lane * 8 + i * 2 + e], 256 * i + 16 * row + column);
        }
      }
    }
  }
}

}  // namespace
}  // namespace lw
