// mma, and what moves fragments: ldmatrix, stmatrix, movmatrix. Of lane l, g = l / 4 and t = l % 4.
// Register r of A with e elements holds row g + 8 (r % 2), columns 4e (r / 2) + e t ...; of B, of
// column g, rows 4e r + e t ...; of C, row g + 8 (r / 2), column 2t + r % 2.
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "src/base/message.h"
#include "src/build/simt/ptx/interpreter/interpret_code.h"
#include "src/build/simt/ptx/interpreter/interpret_decode.h"
#include "src/build/simt/ptx/interpreter/interpret_lanes.h"
#include "src/build/simt/ptx/interpreter/interpret_machine.h"

#pragma STDC FP_CONTRACT OFF

namespace lw::ptx_interpreter {
namespace {

using enum PtxType;

// number: [0] k, [1] type of A, [2] of B, [3] of C and D. list: D, A, B, C. flags 1: satfinite.
struct Fragments {
  int d, a, b, c;  // where they begin in the list
  int a_count, b_count, c_count;
};

Fragments fragments_of(const Instruction& in) {
  const auto a = static_cast<PtxType>(in.number[1]), c = static_cast<PtxType>(in.number[3]);
  Fragments f{};
  if (a == kF64) {
    f.a_count = f.b_count = 1;
    f.c_count = 2;
  } else {
    const int bytes = a == kTf32 ? 4 : bytes_of(a);
    f.b_count = static_cast<int>(in.number[0]) * bytes / 16;
    f.a_count = 2 * f.b_count;
    f.c_count = c == kF16 ? 2 : 4;
  }
  f.a = f.c_count;
  f.b = f.a + f.a_count;
  f.c = f.b + f.b_count;
  return f;
}

// Part e of a register.
template <class T>
T element(PtxType type, uint32_t bits, int e) {
  switch (type) {
    case kF16: return static_cast<T>(from_half(static_cast<uint16_t>(bits >> 16 * e)));
    case kBf16: return static_cast<T>(from_bfloat(static_cast<uint16_t>(bits >> 16 * e)));
    case kTf32: return static_cast<T>(std::bit_cast<float>(bits & ~uint32_t{0x1fff}));
    case kS8: return static_cast<T>(static_cast<int8_t>(bits >> 8 * e));
    default: return static_cast<T>(static_cast<uint8_t>(bits >> 8 * e));
  }
}

template <class T>
void gather(const Warp& w, const Instruction& in, const Fragments& f, T (*a)[32], T (*b)[8]) {
  const auto type_a = static_cast<PtxType>(in.number[1]),
             type_b = static_cast<PtxType>(in.number[2]);
  const int e = type_a == kTf32 ? 1 : 4 / bytes_of(type_a);
  for (int l = 0; l < 32; ++l) {
    const int g = l / 4, t = l % 4;
    for (int r = 0; r < f.a_count; ++r) {
      const uint32_t bits = w.get<uint32_t>(in.list[f.a + r], l);
      for (int i = 0; i < e; ++i) {
        a[g + 8 * (r % 2)][4 * e * (r / 2) + e * t + i] = element<T>(type_a, bits, i);
      }
    }
    for (int r = 0; r < f.b_count; ++r) {
      const uint32_t bits = w.get<uint32_t>(in.list[f.b + r], l);
      for (int i = 0; i < e; ++i) b[4 * e * r + e * t + i][g] = element<T>(type_b, bits, i);
    }
  }
}

// Products are exact in f32; their sums are f32's, in the order of k, from C on.
void run_mma_float(Warp& w, const Instruction& in, uint32_t) {
  const Fragments f = fragments_of(in);
  float a[16][32], b[32][8], out[32][4];
  gather<float>(w, in, f, a, b);
  const bool halves = static_cast<PtxType>(in.number[3]) == kF16;
  for (int l = 0; l < 32; ++l) {
    for (int r = 0; r < 4; ++r) {
      const int row = l / 4 + 8 * (r / 2), column = l % 4 * 2 + r % 2;
      float sum = halves ? from_half(static_cast<uint16_t>(
                               w.get<uint32_t>(in.list[f.c + r / 2], l) >> r % 2 * 16))
                         : w.get<float>(in.list[f.c + r], l);
      for (int k = 0; k < in.number[0]; ++k) sum += a[row][k] * b[k][column];
      out[l][r] = canonical(sum);
    }
  }
  for (int l = 0; l < 32; ++l) {
    for (int r = 0; r < 4; ++r) {
      if (!halves) {
        w.set<float>(in.list[r], l, out[l][r]);
      } else if (r % 2 == 0) {
        const uint32_t both = to_half(out[l][r]) | uint32_t{to_half(out[l][r + 1])} << 16;
        w.set<uint32_t>(in.list[r / 2], l, both);
      }
    }
  }
}

void run_mma_integer(Warp& w, const Instruction& in, uint32_t) {
  const Fragments f = fragments_of(in);
  int32_t a[16][32], b[32][8], out[32][4];
  gather<int32_t>(w, in, f, a, b);
  for (int l = 0; l < 32; ++l) {
    for (int r = 0; r < 4; ++r) {
      const int row = l / 4 + 8 * (r / 2), column = l % 4 * 2 + r % 2;
      int64_t sum = w.get<int32_t>(in.list[f.c + r], l);
      for (int k = 0; k < in.number[0]; ++k) sum += a[row][k] * b[k][column];
      if (in.flags & 1) sum = saturated(sum);
      out[l][r] = static_cast<int32_t>(static_cast<uint32_t>(sum));
    }
  }
  for (int l = 0; l < 32; ++l) {
    for (int r = 0; r < 4; ++r) w.set<int32_t>(in.list[r], l, out[l][r]);
  }
}

// m8n8k4: A (g, t), B (t, g), C (g, 2t ...).
void run_mma_double(Warp& w, const Instruction& in, uint32_t) {
  const Fragments f = fragments_of(in);
  double out[32][2];
  for (int l = 0; l < 32; ++l) {
    for (int r = 0; r < 2; ++r) {
      double sum = w.get<double>(in.list[f.c + r], l);
      for (int k = 0; k < 4; ++k) {
        sum = std::fma(w.get<double>(in.list[f.a], l / 4 * 4 + k),
                       w.get<double>(in.list[f.b], (l % 4 * 2 + r) * 4 + k), sum);
      }
      out[l][r] = sum;
    }
  }
  for (int l = 0; l < 32; ++l) {
    for (int r = 0; r < 2; ++r) w.set<double>(in.list[r], l, out[l][r]);
  }
}

// Matrix i of 8 rows of 16 bytes, whose addresses lanes 8i ... 8i + 7 give. Lane l has of row l / 4
// the elements 2 (l % 4) ...; transposed, of column l / 4. op[0]: address. flags 1: transposed.
void run_load_matrix(Warp& w, const Instruction& in, uint32_t) {
  for (size_t i = 0; i < in.list.size(); ++i) {
    uint16_t rows[8][8];
    for (int row = 0; row < 8; ++row) {
      const int lane = static_cast<int>(i) * 8 + row;
      const std::byte* from =
          w.at(in, lane, in.space,
               w.get<uint64_t>(in.op[0], lane) + static_cast<uint64_t>(in.number[0]), 16, false);
      if (from == nullptr) return;
      std::memcpy(rows[row], from, 16);
    }
    for (int l = 0; l < 32; ++l) {
      const int g = l / 4, t = l % 4 * 2;
      const uint32_t low = in.flags & 1 ? rows[t][g] : rows[g][t];
      const uint32_t high = in.flags & 1 ? rows[t + 1][g] : rows[g][t + 1];
      w.set<uint32_t>(in.list[i], l, low | high << 16);
    }
  }
}

void run_store_matrix(Warp& w, const Instruction& in, uint32_t) {
  for (size_t i = 0; i < in.list.size(); ++i) {
    uint16_t rows[8][8];
    for (int l = 0; l < 32; ++l) {
      const int g = l / 4, t = l % 4 * 2;
      const uint32_t bits = w.get<uint32_t>(in.list[i], l);
      (in.flags & 1 ? rows[t][g] : rows[g][t]) = static_cast<uint16_t>(bits);
      (in.flags & 1 ? rows[t + 1][g] : rows[g][t + 1]) = static_cast<uint16_t>(bits >> 16);
    }
    for (int row = 0; row < 8; ++row) {
      const int lane = static_cast<int>(i) * 8 + row;
      std::byte* to =
          w.at(in, lane, in.space,
               w.get<uint64_t>(in.op[0], lane) + static_cast<uint64_t>(in.number[0]), 16, true);
      if (to == nullptr) return;
      std::memcpy(to, rows[row], 16);
    }
  }
}

void run_move_matrix(Warp& w, const Instruction& in, uint32_t) {
  uint16_t rows[8][8];
  for (int l = 0; l < 32; ++l) {
    const uint32_t bits = w.get<uint32_t>(in.op[1], l);
    rows[l / 4][l % 4 * 2] = static_cast<uint16_t>(bits);
    rows[l / 4][l % 4 * 2 + 1] = static_cast<uint16_t>(bits >> 16);
  }
  for (int l = 0; l < 32; ++l) {
    const int g = l / 4, t = l % 4 * 2;
    w.set<uint32_t>(in.op[0], l, rows[t][g] | uint32_t{rows[t + 1][g]} << 16);
  }
}

void decode_product_of_matrices(Decoder& d) {
  if (!d.take("sync") || !d.take("aligned")) return d.unknown();
  const std::string_view shape =
      d.must_take({"m16n8k4", "m16n8k8", "m16n8k16", "m16n8k32", "m8n8k4"});
  if (!d.take("row") || !d.take("col")) return d.unknown();
  const bool saturate = d.take("satfinite");
  const PtxType result = d.take_type({kF16, kF32, kF64, kS32});
  const PtxType a = d.take_type({kF16, kBf16, kTf32, kF64, kS8, kU8});
  const PtxType b = d.take_type({kF16, kBf16, kTf32, kF64, kS8, kU8});
  const PtxType c = d.take_type({kF16, kF32, kF64, kS32});
  d.expect_operands(4);
  if (!d.ok()) return;
  const bool integers = a == kS8 || a == kU8;
  const int k = shape == "m8n8k4"     ? 4
                : shape == "m16n8k4"  ? 4
                : shape == "m16n8k8"  ? 8
                : shape == "m16n8k16" ? 16
                                      : 32;
  bool known = c == result;
  if (a == kF64) {
    known &= b == kF64 && c == kF64 && shape == "m8n8k4";
  } else if (integers) {
    known &= (b == kS8 || b == kU8) && c == kS32 && (k == 16 || k == 32);
  } else if (a == kTf32) {
    known &= b == kTf32 && c == kF32 && (k == 4 || k == 8);
  } else {
    known &= b == a && (k == 8 || k == 16) && (c == kF32 || (c == kF16 && a == kF16));
  }
  if (shape == "m8n8k4" && a != kF64) known = false;
  if (!known || (saturate && !integers)) return d.unknown();
  d.in.number[0] = k;
  d.in.number[1] = static_cast<int64_t>(a);
  d.in.number[2] = static_cast<int64_t>(b);
  d.in.number[3] = static_cast<int64_t>(c);
  d.in.flags = saturate ? 1 : 0;
  const Fragments f = fragments_of(d.in);
  const PtxType part = a == kF64 ? kF64 : kF16x2;  // registers of 32 bits
  const PtxType sum = c == kF16 ? kF16x2 : c;
  d.destinations(0, sum, f.c_count);
  d.sources(1, part, f.a_count);
  d.sources(2, part, f.b_count);
  d.sources(3, sum, f.c_count);
  d.in.flow = Flow::kWhole;
  d.in.run = a == kF64 ? run_mma_double : integers ? run_mma_integer : run_mma_float;
}

}  // namespace

void decode_matrix(Decoder& d) {
  const std::string_view root = d.root();
  if (root == "mma") return decode_product_of_matrices(d);
  if (!d.take("sync") || !d.take("aligned") || !d.take("m8n8")) return d.unknown();
  d.in.flow = Flow::kWhole;
  if (root == "movmatrix") {
    if (!d.take("trans")) return d.unknown();
    if (!d.version_at_least(78)) return d.fail("this is of PTX 7.8");
    d.take_type({kB16});
    d.expect_operands(2);
    d.in.op[0] = d.destination(0, kF16x2);
    d.in.op[1] = d.source(1, kF16x2);
    d.in.run = run_move_matrix;
    return;
  }
  const bool load = root == "ldmatrix";
  const std::string_view count = d.must_take({"x1", "x2", "x4"});
  d.in.flags = d.take("trans") ? 1 : 0;
  if (!take_shared(d)) d.unknown();
  d.take_type({kB16});
  d.expect_operands(2);
  if (!d.ok()) return;
  if (!load && !d.target_at_least(90)) return d.fail("this is of sm_90");
  const int matrices = count[1] - '0';
  if (load)
    d.destinations(0, kB32, matrices);
  else
    d.sources(1, kB32, matrices);
  d.address(load ? 1 : 0, 0, Space::kShared);
  d.in.run = load ? run_load_matrix : run_store_matrix;
}

}  // namespace lw::ptx_interpreter
