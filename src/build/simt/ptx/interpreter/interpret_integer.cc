// mov, and arithmetic of integers, which wraps.
#include <algorithm>
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

void run_move(Warp& w, const Instruction& in, uint32_t mask) {
  each_lane(mask, [&](int l) { w.set<uint64_t>(in.op[0], l, w.get<uint64_t>(in.op[1], l)); });
}
void run_move_predicate(Warp& w, const Instruction& in, uint32_t mask) {
  w.set_bits(in.op[0], mask, w.bits[in.op[1]]);
}
// number[0]: bits of a part.
void run_pack(Warp& w, const Instruction& in, uint32_t mask) {
  const int64_t bits = in.number[0];
  each_lane(mask, [&](int l) {
    uint64_t value = 0;
    for (size_t i = 0; i < in.list.size(); ++i) {
      value |= w.get<uint64_t>(in.list[i], l) << (bits * static_cast<int64_t>(i));
    }
    w.set<uint64_t>(in.op[0], l, value);
  });
}
void run_unpack(Warp& w, const Instruction& in, uint32_t mask) {
  const int64_t bits = in.number[0];
  each_lane(mask, [&](int l) {
    const uint64_t value = w.get<uint64_t>(in.op[1], l);
    for (size_t i = 0; i < in.list.size(); ++i) {
      w.set<uint64_t>(in.list[i], l,
                      value >> (bits * static_cast<int64_t>(i)) & ((uint64_t{1} << bits) - 1));
    }
  });
}

template <class T>
using Twice =
    std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
                       std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;
template <class T>
using Huge = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;

template <class T>
T high_product(T a, T b) {
  return static_cast<T>(static_cast<Huge<T>>(a) * b >> (sizeof(T) * 8));
}
template <class T>
T wrapped_product(T a, T b) {
  return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
template <class T>
T wrapped_sum(T a, T b) {
  return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
// Without a trap: what a device gives for 0, and for the quotient that does not fit.
template <class T>
T quotient(T a, T b) {
  if (b == 0) return static_cast<T>(~T{0});
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) return wrapped_product<T>(a, b);
  return static_cast<T>(a / b);
}
template <class T>
T remainder_of(T a, T b) {
  if (b == 0) return a;
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
  return static_cast<T>(a % b);
}

Handler simple_handler(std::string_view root, PtxType type) {
  return by_integer(type, [&]<class T>() -> Handler {
    if (root == "add") {
      return binary_lanes<T, T, T, [](T a, T b) { return wrapped_sum<T>(a, b); }>;
    }
    if (root == "sub") {
      return binary_lanes<T, T, T, [](T a, T b) {
        return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
      }>;
    }
    if (root == "div") return binary_lanes<T, T, T, [](T a, T b) { return quotient<T>(a, b); }>;
    if (root == "rem") {
      return binary_lanes<T, T, T, [](T a, T b) { return remainder_of<T>(a, b); }>;
    }
    if (root == "min") return binary_lanes<T, T, T, [](T a, T b) { return std::min(a, b); }>;
    if (root == "max") return binary_lanes<T, T, T, [](T a, T b) { return std::max(a, b); }>;
    return nullptr;
  });
}

Handler product_handler(std::string_view part, PtxType type) {
  return by_integer(type, [&]<class T>() -> Handler {
    if (part == "lo") {
      return binary_lanes<T, T, T, [](T a, T b) { return wrapped_product<T>(a, b); }>;
    }
    if (part == "hi") return binary_lanes<T, T, T, [](T a, T b) { return high_product<T>(a, b); }>;
    using D = Twice<T>;
    return binary_lanes<D, T, T, [](T a, T b) { return wrapped_product<D>(a, b); }>;
  });
}

Handler product_sum_handler(std::string_view part, PtxType type) {
  return by_integer(type, [&]<class T>() -> Handler {
    if (part == "lo") {
      return ternary_lanes<T, T, T, T, [](T a, T b, T c) {
        return wrapped_sum<T>(wrapped_product<T>(a, b), c);
      }>;
    }
    if (part == "hi") {
      return ternary_lanes<T, T, T, T,
                           [](T a, T b, T c) { return wrapped_sum<T>(high_product<T>(a, b), c); }>;
    }
    using D = Twice<T>;
    return ternary_lanes<D, T, T, D,
                         [](T a, T b, D c) { return wrapped_sum<D>(wrapped_product<D>(a, b), c); }>;
  });
}

PtxType twice(PtxType type) {
  switch (type) {
    case kU16: return kU32;
    case kS16: return kS32;
    case kU32: return kU64;
    default: return kS64;
  }
}

void decode_product(Decoder& d) {
  const bool sum = d.root() == "mad";
  const std::string_view part = d.must_take({"lo", "hi", "wide"});
  const PtxType type = part == "wide" ? d.take_type({kU16, kS16, kU32, kS32})
                                      : d.take_type({kU16, kS16, kU32, kS32, kU64, kS64});
  const PtxType result = part == "wide" ? twice(type) : type;
  d.expect_operands(sum ? 4 : 3);
  d.in.op[0] = d.destination(0, result);
  d.in.op[1] = d.source(1, type);
  d.in.op[2] = d.source(2, type);
  if (sum) d.in.op[3] = d.source(3, result);
  d.in.run = sum ? product_sum_handler(part, type) : product_handler(part, type);
}

}  // namespace

void decode_integer(Decoder& d) {
  const std::string_view root = d.root();
  const PtxType last = type_named(d.last());
  if (is_float(last) || last == kF16x2 || last == kBf16x2) return decode_float(d);
  if (root == "mul" || root == "mad") return decode_product(d);
  if (root == "abs" || root == "neg") {
    const PtxType type = d.take_type({kS16, kS32, kS64});
    d.expect_operands(2);
    d.in.op[0] = d.destination(0, type);
    d.in.op[1] = d.source(1, type);
    d.in.run = by_integer(type, [&]<class T>() -> Handler {
      constexpr auto negate = [](T a) { return static_cast<T>(-static_cast<uint64_t>(a)); };
      if (root == "neg") return unary_lanes<T, T, negate>;
      return unary_lanes<T, T,
                         [](T a) { return a < 0 ? static_cast<T>(-static_cast<uint64_t>(a)) : a; }>;
    });
    return;
  }
  const bool saturate = (root == "add" || root == "sub") && d.take("sat");
  const PtxType type =
      saturate ? d.take_type({kS32}) : d.take_type({kU16, kS16, kU32, kS32, kU64, kS64});
  d.expect_operands(3);
  d.in.op[0] = d.destination(0, type);
  d.in.op[1] = d.source(1, type);
  d.in.op[2] = d.source(2, type);
  d.in.run = simple_handler(root, type);
  if (saturate) {
    using T = int32_t;
    d.in.run =
        root == "add"
            ? Handler{binary_lanes<T, T, T, [](T a, T b) { return saturated(int64_t{a} + b); }>}
            : Handler{binary_lanes<T, T, T, [](T a, T b) { return saturated(int64_t{a} - b); }>};
  }
}

void decode_move(Decoder& d) {
  const PtxType type =
      d.take_type({kPred, kB16, kB32, kB64, kU16, kU32, kU64, kS16, kS32, kS64, kF32, kF64});
  d.expect_operands(2);
  if (!d.ok()) return;
  const int bytes = bytes_of(type);
  if (type == kPred) {
    d.in.op[0] = d.destination(0, type);
    d.in.op[1] = d.source(1, type);
    d.in.run = run_move_predicate;
    return;
  }
  if (d.is_vector(0) || d.is_vector(1)) {
    const int vector = d.is_vector(0) ? 0 : 1;
    const int count = static_cast<int>(d.operand(vector).items.size());
    if (!is_bits(type) || (count != 2 && count != 4) || bytes / count < 2) {
      d.fail("bits of this type do not fall into so many parts");
      return;
    }
    const PtxType part = bytes / count == 4 ? kB32 : kB16;
    d.in.number[0] = bytes / count * 8;
    if (vector == 0) {
      d.destinations(0, part, count);
      d.in.op[1] = d.source(1, type);
      d.in.run = run_unpack;
    } else {
      d.in.op[0] = d.destination(0, type);
      d.sources(1, part, count);
      d.in.run = run_pack;
    }
    return;
  }
  d.in.op[0] = d.destination(0, type);
  d.in.op[1] = d.source_or_symbol(1, type);
  d.in.run = run_move;
}

}  // namespace lw::ptx_interpreter
