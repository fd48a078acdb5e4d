// setp, selp, slct, testp.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <type_traits>

#include "src/build/simt/ptx/interpreter/interpret_code.h"
#include "src/build/simt/ptx/interpreter/interpret_decode.h"
#include "src/build/simt/ptx/interpreter/interpret_lanes.h"
#include "src/build/simt/ptx/interpreter/interpret_machine.h"

namespace lw::ptx_interpreter {
namespace {

using enum PtxType;

constexpr std::string_view kComparisons[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",
                                             "lo",  "ls",  "hi",  "hs",  "equ", "neu",
                                             "ltu", "leu", "gtu", "geu", "num", "nan"};

template <class T>
bool compared(int64_t which, T a, T b) {
  const bool unordered = a != a || b != b;
  switch (which) {
    case 0: return !unordered && a == b;
    case 1: return !unordered && a != b;
    case 2:
    case 6: return a < b;
    case 3:
    case 7: return a <= b;
    case 4:
    case 8: return a > b;
    case 5:
    case 9: return a >= b;
    case 10: return unordered || a == b;
    case 11: return unordered || a != b;
    case 12: return unordered || a < b;
    case 13: return unordered || a <= b;
    case 14: return unordered || a > b;
    case 15: return unordered || a >= b;
    case 16: return !unordered;
    default: return unordered;
  }
}

// op: p, q (or -1), a, b, c (or -1). number[0]: comparison; [1]: 0 and, 1 or, 2 xor. flags 1: ftz;
// 2: c is negated.
template <class T>
void run_compare(Warp& w, const Instruction& in, uint32_t mask) {
  uint32_t out = 0;
  const bool flush = in.flags & 1;
  each_lane(mask, [&](int l) {
    T a = w.get<T>(in.op[2], l), b = w.get<T>(in.op[3], l);
    if constexpr (sizeof(T) == 4 && !std::is_integral_v<T>) {
      if (flush) a = flushed(a), b = flushed(b);
    }
    if (compared<T>(in.number[0], a, b)) out |= 1u << l;
  });
  uint32_t other = ~out;
  if (in.op[4] >= 0) {
    const uint32_t c = in.flags & 2 ? ~w.bits[in.op[4]] : w.bits[in.op[4]];
    const auto combine = [&](uint32_t x) {
      return in.number[1] == 0 ? x & c : in.number[1] == 1 ? x | c : x ^ c;
    };
    out = combine(out);
    other = combine(other);
  }
  w.set_bits(in.op[0], mask, out);
  if (in.op[1] >= 0) w.set_bits(in.op[1], mask, other);
}

void run_select(Warp& w, const Instruction& in, uint32_t mask) {
  const uint32_t p = in.flags & 4 ? ~w.bits[in.op[3]] : w.bits[in.op[3]];
  each_lane(mask, [&](int l) {
    w.set<uint64_t>(in.op[0], l, w.get<uint64_t>(p >> l & 1 ? in.op[1] : in.op[2], l));
  });
}

// flags 1: the sign is that of an f32; 2: which is flushed.
void run_select_sign(Warp& w, const Instruction& in, uint32_t mask) {
  each_lane(mask, [&](int l) {
    bool first = w.get<int32_t>(in.op[3], l) >= 0;
    if (in.flags & 1) {
      const float c = w.get<float>(in.op[3], l);
      first = (in.flags & 2 ? flushed(c) : c) >= 0;  // -0 is; NaN is not
    }
    w.set<uint64_t>(in.op[0], l, w.get<uint64_t>(first ? in.op[1] : in.op[2], l));
  });
}

constexpr std::string_view kTests[] = {"finite",     "infinite", "number",
                                       "notanumber", "normal",   "subnormal"};

template <class T>
void run_test(Warp& w, const Instruction& in, uint32_t mask) {
  uint32_t out = 0;
  each_lane(mask, [&](int l) {
    const int sort = std::fpclassify(w.get<T>(in.op[1], l));
    const bool yes[] = {sort != FP_INFINITE && sort != FP_NAN,
                        sort == FP_INFINITE,
                        sort != FP_NAN,
                        sort == FP_NAN,
                        sort == FP_NORMAL,
                        sort == FP_SUBNORMAL};
    if (yes[in.number[0]]) out |= 1u << l;
  });
  w.set_bits(in.op[0], mask, out);
}

void decode_set_predicate(Decoder& d) {
  const auto* found = std::find(std::begin(kComparisons), std::end(kComparisons), d.peek());
  if (found == std::end(kComparisons)) return d.unknown();
  const int64_t which = found - std::begin(kComparisons);
  d.in.number[0] = which;
  d.skip();
  const std::string_view combine = d.take_any({"and", "or", "xor"});
  d.in.number[1] = combine == "or" ? 1 : combine == "xor" ? 2 : 0;
  const bool flush = d.take("ftz");
  const PtxType type =
      d.take_type({kB16, kB32, kB64, kU16, kU32, kU64, kS16, kS32, kS64, kF32, kF64});
  d.expect_operands(combine.empty() ? 3 : 4);
  if (!d.ok()) return;
  if (flush && type != kF32) return d.fail(".ftz is of f32");
  const bool real = is_float(type), bits = is_bits(type), plain = which < 2;
  const bool of_unsigned = which >= 6 && which <= 9;
  if ((!real && which >= 10) || (bits && !plain) || (of_unsigned && (real || is_signed(type)))) {
    return d.fail("the type has no such comparison");
  }
  const auto [p, q] = d.operand(0).halves();
  d.in.op[0] = d.destination(p, kPred);
  if (!q.name.empty()) d.in.op[1] = d.destination(q, kPred);
  d.in.op[2] = d.source(1, type);
  d.in.op[3] = d.source(2, type);
  bool negated = false;
  if (!combine.empty()) d.in.op[4] = d.predicate(3, &negated);
  d.in.flags = (flush ? 1 : 0) | (negated ? 2 : 0);
  const auto handler = []<class T>() -> Handler { return run_compare<T>; };
  d.in.run = type == kF32   ? run_compare<float>
             : type == kF64 ? run_compare<double>
             : bits         ? by_bits(type, handler)
                            : by_integer(type, handler);
}

}  // namespace

void decode_compare(Decoder& d) {
  const std::string_view root = d.root();
  if (root == "setp") return decode_set_predicate(d);
  if (root == "testp") {
    const auto* found = std::find(std::begin(kTests), std::end(kTests), d.peek());
    if (found == std::end(kTests)) return d.unknown();
    d.in.number[0] = found - std::begin(kTests);
    d.skip();
    const PtxType type = d.take_type({kF32, kF64});
    d.expect_operands(2);
    d.in.op[0] = d.destination(0, kPred);
    d.in.op[1] = d.source(1, type);
    d.in.run = type == kF32 ? run_test<float> : run_test<double>;
    return;
  }
  const bool by_sign = root == "slct";
  const bool flush = by_sign && d.take("ftz");
  const PtxType type =
      d.take_type({kB16, kB32, kB64, kU16, kU32, kU64, kS16, kS32, kS64, kF32, kF64});
  const PtxType sign = by_sign ? d.take_type({kS32, kF32}) : kPred;
  if (flush && sign != kF32) d.fail(".ftz is of f32");
  d.expect_operands(4);
  d.in.op[0] = d.destination(0, type);
  d.in.op[1] = d.source(1, type);
  d.in.op[2] = d.source(2, type);
  bool negated = false;
  d.in.op[3] = by_sign ? d.source(3, sign) : d.predicate(3, &negated);
  d.in.flags = (sign == kF32 ? 1 : 0) | (flush ? 2 : 0) | (negated ? 4 : 0);
  d.in.run = by_sign ? run_select_sign : run_select;
}

}  // namespace lw::ptx_interpreter
