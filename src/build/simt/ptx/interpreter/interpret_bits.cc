// Logic, shifts, fields of bits, and dot products of bytes.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "src/build/simt/ptx/interpreter/interpret_code.h"
#include "src/build/simt/ptx/interpreter/interpret_decode.h"
#include "src/build/simt/ptx/interpreter/interpret_lanes.h"
#include "src/build/simt/ptx/interpreter/interpret_machine.h"

namespace lw::ptx_interpreter {
namespace {

using enum PtxType;

// number[0]: the table of the operation, of bits a (1 of the index) and b (0).
void run_predicate_logic(Warp& w, const Instruction& in, uint32_t mask) {
  const uint32_t a = w.bits[in.op[1]], b = w.bits[in.op[2]];
  const uint32_t both[] = {~a & ~b, ~a & b, a & ~b, a & b};
  uint32_t out = 0;
  for (int i = 0; i < 4; ++i) {
    if (in.number[0] >> i & 1) out |= both[i];
  }
  w.set_bits(in.op[0], mask, out);
}

Handler logic_handler(std::string_view root, PtxType type) {
  return by_bits(type, [&]<class T>() -> Handler {
    if (root == "and") return binary_lanes<T, T, T, [](T a, T b) { return static_cast<T>(a & b); }>;
    if (root == "or") return binary_lanes<T, T, T, [](T a, T b) { return static_cast<T>(a | b); }>;
    if (root == "xor") return binary_lanes<T, T, T, [](T a, T b) { return static_cast<T>(a ^ b); }>;
    return unary_lanes<T, T, [](T a) { return static_cast<T>(~a); }>;
  });
}

Handler shift_handler(std::string_view root, PtxType type) {
  const auto left = [&]<class T>() -> Handler {
    return binary_lanes<T, T, uint32_t, [](T a, uint32_t b) {
      return b >= sizeof(T) * 8 ? T{0} : static_cast<T>(static_cast<uint64_t>(a) << b);
    }>;
  };
  const auto right = [&]<class T>() -> Handler {
    return binary_lanes<T, T, uint32_t, [](T a, uint32_t b) {
      const uint32_t most = sizeof(T) * 8 - 1;
      if (b > most) return static_cast<T>(std::is_signed_v<T> ? a >> most : T{0});
      return static_cast<T>(a >> b);
    }>;
  };
  if (root == "shl") return by_bits(type, left);
  return is_signed(type) ? by_integer(type, right) : by_bits(type, right);
}

template <class T>
T extracted(T a, uint32_t begin, uint32_t count) {
  constexpr uint32_t kBits = sizeof(T) * 8;
  begin &= 255;
  count &= 255;
  const auto bit = [&](uint32_t i) { return i < kBits && (static_cast<uint64_t>(a) >> i & 1); };
  // Beyond the top, and beyond the field, bits are the sign.
  const bool sign =
      std::is_signed_v<T> && count != 0 && bit(std::min(begin + count - 1, kBits - 1));
  uint64_t out = 0;
  for (uint32_t i = 0; i < kBits; ++i) {
    const bool inside = i < count && begin + i < kBits;
    if (inside ? bit(begin + i) : sign) out |= uint64_t{1} << i;
  }
  return static_cast<T>(out);
}

template <class T>
void run_insert(Warp& w, const Instruction& in, uint32_t mask) {
  constexpr uint32_t kBits = sizeof(T) * 8;
  each_lane(mask, [&](int l) {
    const T from = w.get<T>(in.op[1], l);
    T to = w.get<T>(in.op[2], l);
    const uint32_t begin = w.get<uint32_t>(in.op[3], l) & 255;
    const uint32_t count = w.get<uint32_t>(in.op[4], l) & 255;
    for (uint32_t i = 0; i < count && begin + i < kBits; ++i) {
      const T bit = static_cast<T>(T{1} << (begin + i));
      to = static_cast<T>((from >> i & 1) ? to | bit : to & ~bit);
    }
    w.set<T>(in.op[0], l, to);
  });
}

// number[0]: 0 left wrap, 1 left clamp, 2 right wrap, 3 right clamp.
void run_funnel(Warp& w, const Instruction& in, uint32_t mask) {
  each_lane(mask, [&](int l) {
    const uint64_t both =
        uint64_t{w.get<uint32_t>(in.op[2], l)} << 32 | w.get<uint32_t>(in.op[1], l);
    const uint32_t c = w.get<uint32_t>(in.op[3], l);
    const uint32_t n = in.number[0] & 1 ? std::min(c, 32u) : c & 31;
    const uint64_t out = in.number[0] < 2 ? both >> (32 - n) : both >> n;
    w.set<uint32_t>(in.op[0], l, static_cast<uint32_t>(out));
  });
}

// number[0]: the mode.
uint32_t permuted(uint32_t a, uint32_t b, uint32_t c, int64_t mode) {
  const uint64_t both = uint64_t{b} << 32 | a;
  const auto byte = [&](uint32_t i) { return static_cast<uint32_t>(both >> (i & 7) * 8 & 255); };
  uint32_t out = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t s = c & 3;
    uint32_t value = 0;
    switch (mode) {
      case 0: {
        const uint32_t pick = c >> i * 4 & 15;
        value = byte(pick);
        if (pick & 8) value = value & 128 ? 255 : 0;
        break;
      }
      case 1: value = byte(s + i); break;                   // f4e
      case 2: value = byte(s + 8 - i); break;               // b4e
      case 3: value = byte(s); break;                       // rc8
      case 4: value = byte(std::max(i, s)); break;          // ecl
      case 5: value = byte(std::min(i, s)); break;          // ecr
      default: value = byte((s & 1) * 2 + (i & 1)); break;  // rc16
    }
    out |= value << i * 8;
  }
  return out;
}

void run_permute(Warp& w, const Instruction& in, uint32_t mask) {
  each_lane(mask, [&](int l) {
    w.set<uint32_t>(in.op[0], l,
                    permuted(w.get<uint32_t>(in.op[1], l), w.get<uint32_t>(in.op[2], l),
                             w.get<uint32_t>(in.op[3], l), in.number[0]));
  });
}

// number[0]: the table.
void run_table(Warp& w, const Instruction& in, uint32_t mask) {
  each_lane(mask, [&](int l) {
    const uint32_t a = w.get<uint32_t>(in.op[1], l), b = w.get<uint32_t>(in.op[2], l);
    const uint32_t c = w.get<uint32_t>(in.op[3], l);
    uint32_t out = 0;
    for (int i = 0; i < 8; ++i) {
      if (in.number[0] >> i & 1) out |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    }
    w.set<uint32_t>(in.op[0], l, out);
  });
}

int64_t byte_of(uint32_t x, int i, bool is_signed_byte) {
  const auto byte = static_cast<uint8_t>(x >> i * 8);
  return is_signed_byte ? int64_t{static_cast<int8_t>(byte)} : int64_t{byte};
}
// flags 1: a is signed; 2: b is. number[0]: the half of b that dp2a takes, or -1: dp4a.
void run_dot_bytes(Warp& w, const Instruction& in, uint32_t mask) {
  const bool sign_a = in.flags & 1, sign_b = in.flags & 2;
  each_lane(mask, [&](int l) {
    const uint32_t a = w.get<uint32_t>(in.op[1], l), b = w.get<uint32_t>(in.op[2], l);
    int64_t sum = w.get<int32_t>(in.op[3], l);
    if (in.number[0] < 0) {
      for (int i = 0; i < 4; ++i) sum += byte_of(a, i, sign_a) * byte_of(b, i, sign_b);
    } else {
      for (int i = 0; i < 2; ++i) {
        const auto half = static_cast<uint16_t>(a >> i * 16);
        const int64_t value = sign_a ? int64_t{static_cast<int16_t>(half)} : int64_t{half};
        sum += value * byte_of(b, static_cast<int>(in.number[0]) * 2 + i, sign_b);
      }
    }
    w.set<uint32_t>(in.op[0], l, static_cast<uint32_t>(sum));
  });
}

void decode_logic(Decoder& d) {
  const std::string_view root = d.root();
  const PtxType type = d.take_type({kPred, kB16, kB32, kB64});
  const bool one = root == "not";
  d.expect_operands(one ? 2 : 3);
  d.in.op[0] = d.destination(0, type);
  if (type == kPred) {
    bool not_a = false, not_b = false;
    d.in.op[1] = d.predicate(1, &not_a);
    d.in.op[2] = one ? d.in.op[1] : d.predicate(2, &not_b);
    const int table = one ? 3 : root == "and" ? 8 : root == "or" ? 14 : 6;
    for (int i = 0; i < 4; ++i) {
      const int from = i ^ (not_a ? one ? 3 : 2 : 0) ^ (not_b ? 1 : 0);
      d.in.number[0] |= int64_t{table >> from & 1} << i;
    }
    d.in.run = run_predicate_logic;
    return;
  }
  d.in.op[1] = d.source(1, type);
  d.in.op[2] = one ? d.in.op[1] : d.source(2, type);
  d.in.run = logic_handler(root, type);
}

void decode_count(Decoder& d) {
  const std::string_view root = d.root();
  const PtxType type = d.take_type({kB32, kB64});
  d.expect_operands(2);
  d.in.op[0] = d.destination(0, root == "brev" ? type : kU32);
  d.in.op[1] = d.source(1, type);
  d.in.run = by_bits(type, [&]<class T>() -> Handler {
    if (root == "popc") {
      return unary_lanes<uint32_t, T, [](T a) { return static_cast<uint32_t>(std::popcount(a)); }>;
    }
    if (root == "clz") {
      return unary_lanes<uint32_t, T,
                         [](T a) { return static_cast<uint32_t>(std::countl_zero(a)); }>;
    }
    return unary_lanes<T, T, [](T a) {
      T out = 0;
      for (size_t i = 0; i < sizeof(T) * 8; ++i) {
        if (a >> i & 1) out |= T{1} << (sizeof(T) * 8 - 1 - i);
      }
      return out;
    }>;
  });
}

void decode_dot_bytes(Decoder& d) {
  d.in.number[0] = -1;
  if (d.root() == "dp2a") d.in.number[0] = d.must_take({"lo", "hi"}) == "hi" ? 1 : 0;
  const PtxType a = d.take_type({kU32, kS32}), b = d.take_type({kU32, kS32});
  const PtxType sum = a == kU32 && b == kU32 ? kU32 : kS32;
  d.in.flags = (a == kS32 ? 1 : 0) | (b == kS32 ? 2 : 0);
  d.expect_operands(4);
  d.in.op[0] = d.destination(0, sum);
  d.in.op[1] = d.source(1, kB32);
  d.in.op[2] = d.source(2, kB32);
  d.in.op[3] = d.source(3, sum);
  d.in.run = run_dot_bytes;
}

}  // namespace

void decode_bits(Decoder& d) {
  const std::string_view root = d.root();
  if (root == "and" || root == "or" || root == "xor" || root == "not") return decode_logic(d);
  if (root == "popc" || root == "clz" || root == "brev") return decode_count(d);
  if (root == "dp4a" || root == "dp2a") return decode_dot_bytes(d);
  if (root == "shl" || root == "shr") {
    const PtxType type = root == "shl"
                             ? d.take_type({kB16, kB32, kB64})
                             : d.take_type({kB16, kB32, kB64, kU16, kU32, kU64, kS16, kS32, kS64});
    d.expect_operands(3);
    d.in.op[0] = d.destination(0, type);
    d.in.op[1] = d.source(1, type);
    d.in.op[2] = d.source(2, kU32);
    d.in.run = shift_handler(root, type);
    return;
  }
  if (root == "bfe") {
    const PtxType type = d.take_type({kU32, kS32, kU64, kS64});
    d.expect_operands(4);
    d.in.op[0] = d.destination(0, type);
    d.in.op[1] = d.source(1, type);
    d.in.op[2] = d.source(2, kU32);
    d.in.op[3] = d.source(3, kU32);
    d.in.run = by_integer(type, []<class T>() -> Handler {
      return ternary_lanes<T, T, uint32_t, uint32_t,
                           [](T a, uint32_t b, uint32_t c) { return extracted<T>(a, b, c); }>;
    });
    return;
  }
  if (root == "bfi") {
    const PtxType type = d.take_type({kB32, kB64});
    d.expect_operands(5);
    d.in.op[0] = d.destination(0, type);
    d.in.op[1] = d.source(1, type);
    d.in.op[2] = d.source(2, type);
    d.in.op[3] = d.source(3, kU32);
    d.in.op[4] = d.source(4, kU32);
    d.in.run = type == kB32 ? run_insert<uint32_t> : run_insert<uint64_t>;
    return;
  }
  // shf, prmt, lop3: of 32 bits, three sources.
  if (root == "shf") {
    d.in.number[0] = d.must_take({"l", "r"}) == "r" ? 2 : 0;
    d.in.number[0] += d.must_take({"wrap", "clamp"}) == "clamp" ? 1 : 0;
    d.in.run = run_funnel;
  }
  d.take_type({kB32});
  if (root == "prmt") {
    const std::string_view mode = d.take_any({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"});
    const std::string_view modes[] = {"", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
    d.in.number[0] = std::find(modes, modes + 7, mode) - modes;
    d.in.run = run_permute;
  }
  d.expect_operands(root == "lop3" ? 5 : 4);
  d.in.op[0] = d.destination(0, kB32);
  d.in.op[1] = d.source(1, kB32);
  d.in.op[2] = d.source(2, kB32);
  d.in.op[3] = d.source(3, kB32);
  if (root == "lop3") {
    d.in.number[0] = d.integer(4, 0, 255);
    d.in.run = run_table;
  }
}

}  // namespace lw::ptx_interpreter
