// Arithmetic of f32 and f64, and of f16, bf16 and pairs of them where it is fused.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>

#include "src/build/simt/ptx/interpreter/interpret_code.h"
#include "src/build/simt/ptx/interpreter/interpret_decode.h"
#include "src/build/simt/ptx/interpreter/interpret_lanes.h"
#include "src/build/simt/ptx/interpreter/interpret_machine.h"

#pragma STDC FP_CONTRACT OFF

namespace lw::ptx_interpreter {
namespace {

using enum PtxType;

// One of two values is no number: the other; both: NaN. -0 is less than +0.
template <class T, bool kMax, bool kNan>
T extreme(T a, T b) {
  if (a != a || b != b) {
    if (kNan || (a != a && b != b)) return canonical(std::numeric_limits<T>::quiet_NaN());
    return a != a ? b : a;
  }
  if (a == b) return std::signbit(a) == kMax ? b : a;
  return (a < b) == kMax ? b : a;
}

template <class T, bool kFlush, auto F>
Handler binary_float() {
  return binary_lanes<T, T, T, [](T a, T b) {
    return canonical(maybe_flushed<kFlush>(F(maybe_flushed<kFlush>(a), maybe_flushed<kFlush>(b))));
  }>;
}
template <class T, bool kFlush, auto F>
Handler unary_float() {
  return unary_lanes<T, T, [](T a) {
    return canonical(maybe_flushed<kFlush>(F(maybe_flushed<kFlush>(a))));
  }>;
}

template <class T, bool kFlush>
Handler basic_handler(std::string_view root, bool nan) {
  if (root == "add") return binary_float<T, kFlush, [](T a, T b) { return a + b; }>();
  if (root == "sub") return binary_float<T, kFlush, [](T a, T b) { return a - b; }>();
  if (root == "mul") return binary_float<T, kFlush, [](T a, T b) { return a * b; }>();
  if (root == "div") return binary_float<T, kFlush, [](T a, T b) { return a / b; }>();
  if (root == "min") {
    return nan ? binary_float<T, kFlush, extreme<T, false, true>>()
               : binary_float<T, kFlush, extreme<T, false, false>>();
  }
  if (root == "max") {
    return nan ? binary_float<T, kFlush, extreme<T, true, true>>()
               : binary_float<T, kFlush, extreme<T, true, false>>();
  }
  return ternary_lanes<T, T, T, T, [](T a, T b, T c) {
    return canonical(maybe_flushed<kFlush>(
        std::fma(maybe_flushed<kFlush>(a), maybe_flushed<kFlush>(b), maybe_flushed<kFlush>(c))));
  }>;
}

template <class T, bool kFlush>
Handler sign_handler(std::string_view root) {
  if (root == "abs") {
    return unary_lanes<T, T, [](T a) { return std::fabs(maybe_flushed<kFlush>(a)); }>;
  }
  return unary_lanes<T, T, [](T a) { return -maybe_flushed<kFlush>(a); }>;
}

// `float` in and out: an f32, of which an approximation is taken.
template <bool kFlush>
Handler approximation(std::string_view root) {
  using F = float;
  if (root == "ex2") return unary_float<F, kFlush, [](F a) { return std::exp2(a); }>();
  if (root == "lg2") return unary_float<F, kFlush, [](F a) { return std::log2(a); }>();
  if (root == "sin") return unary_float<F, kFlush, [](F a) { return std::sin(a); }>();
  if (root == "cos") return unary_float<F, kFlush, [](F a) { return std::cos(a); }>();
  if (root == "tanh") return unary_float<F, kFlush, [](F a) { return std::tanh(a); }>();
  if (root == "rcp") return unary_float<F, kFlush, [](F a) { return 1.0f / a; }>();
  if (root == "sqrt") return unary_float<F, kFlush, [](F a) { return std::sqrt(a); }>();
  return unary_float<F, kFlush,
                     [](F a) { return static_cast<F>(1.0 / std::sqrt(static_cast<double>(a))); }>();
}

// Of halves: the sum or product is exact in f64 (a product of three is not, by less than a rounding
// to 16 bits sees). number[0]: 0 add, 1 sub, 2 mul, 3 fma, 4 min, 5 max. number[1]: parts.
// flags 1: bf16; 2: NaN of either.
void run_halves(Warp& w, const Instruction& in, uint32_t mask) {
  const bool bfloat = in.flags & 1, nan = in.flags & 2;
  const auto value = [&](int32_t slot, int l, int part) -> double {
    const auto bits = static_cast<uint16_t>(w.get<uint32_t>(slot, l) >> part * 16);
    return bfloat ? from_bfloat(bits) : from_half(bits);
  };
  each_lane(mask, [&](int l) {
    uint32_t out = 0;
    for (int part = 0; part < in.number[1]; ++part) {
      const double a = value(in.op[1], l, part), b = value(in.op[2], l, part);
      double r = 0;
      switch (in.number[0]) {
        case 0: r = a + b; break;
        case 1: r = a - b; break;
        case 2: r = a * b; break;
        case 3: r = std::fma(a, b, value(in.op[3], l, part)); break;
        case 4:
          r = nan ? extreme<double, false, true>(a, b) : extreme<double, false, false>(a, b);
          break;
        default: r = nan ? extreme<double, true, true>(a, b) : extreme<double, true, false>(a, b);
      }
      out |= uint32_t{bfloat ? to_bfloat(r) : to_half(r)} << part * 16;
    }
    w.set<uint32_t>(in.op[0], l, out);
  });
}

void decode_halves(Decoder& d, bool nan) {
  const PtxType type = d.take_type({kF16, kBf16, kF16x2, kBf16x2});
  const std::string_view root = d.root();
  const bool bfloat = type == kBf16 || type == kBf16x2;
  const bool plain = root == "add" || root == "sub" || root == "mul";
  // bf16 has only fma, min and max before sm_90.
  if (bfloat && plain && !(d.target_at_least(90) && d.version_at_least(78))) {
    return d.fail("bf16 has this from sm_90 and PTX 7.8 on");
  }
  constexpr std::string_view kRoots[] = {"add", "sub", "mul", "fma", "min", "max"};
  int which = 0;
  while (which < 6 && kRoots[which] != root) ++which;
  if (which == 6) return d.unknown();
  d.in.number[0] = which;
  d.in.number[1] = bytes_of(type) / 2;
  d.in.flags = (bfloat ? 1 : 0) | (nan ? 2 : 0);
  d.expect_operands(which == 3 ? 4 : 3);
  d.in.op[0] = d.destination(0, type);
  d.in.op[1] = d.source(1, type);
  d.in.op[2] = d.source(2, type);
  if (which == 3) d.in.op[3] = d.source(3, type);
  d.in.run = run_halves;
}

}  // namespace

void decode_float(Decoder& d) {
  const std::string_view root = d.root();
  const bool one = root == "abs" || root == "neg";
  const bool extreme_value = root == "min" || root == "max";
  const PtxType last = type_named(d.last());
  if (root == "copysign") {
    const PtxType type = d.take_type({kF32, kF64});
    d.expect_operands(3);
    d.in.op[0] = d.destination(0, type);
    d.in.op[1] = d.source(1, type);
    d.in.op[2] = d.source(2, type);
    // The sign of a on b.
    using D = double;
    using F = float;
    d.in.run = type == kF32
                   ? Handler{binary_lanes<F, F, F, [](F a, F b) { return std::copysign(b, a); }>}
                   : Handler{binary_lanes<D, D, D, [](D a, D b) { return std::copysign(b, a); }>};
    return;
  }
  if (root == "rem" || root == "mad") return d.unknown();
  bool flush = false, nan = false, approximate = false;
  if (one) {
    flush = d.take("ftz");
  } else if (extreme_value) {
    flush = d.take("ftz");
    nan = d.take("NaN");
  } else {
    const bool rounded = d.take("rn");
    if (!rounded && root == "div") approximate = !d.take_any({"approx", "full"}).empty();
    // add, sub and mul round to nearest anyway.
    if (!rounded && !approximate && (root == "div" || root == "fma")) {
      return d.fail("the rounding .rn is missing, or is another");
    }
    flush = d.take("ftz");
  }
  if (last == kF16 || last == kBf16 || last == kF16x2 || last == kBf16x2) {
    if (flush) return d.unknown();
    return decode_halves(d, nan);
  }
  const PtxType type = d.take_type({kF32, kF64});
  if (type == kF64 && (flush || nan || approximate)) return d.unknown();
  const int sources = one ? 1 : root == "fma" ? 3 : 2;
  d.expect_operands(sources + 1);
  d.in.op[0] = d.destination(0, type);
  for (int i = 1; i <= sources; ++i) d.in.op[i] = d.source(i, type);
  if (one) {
    d.in.run = type == kF64 ? sign_handler<double, false>(root)
               : flush      ? sign_handler<float, true>(root)
                            : sign_handler<float, false>(root);
    return;
  }
  d.in.run = type == kF64 ? basic_handler<double, false>(root, nan)
             : flush      ? basic_handler<float, true>(root, nan)
                          : basic_handler<float, false>(root, nan);
}

void decode_special_function(Decoder& d) {
  const std::string_view root = d.root();
  const bool exact = (root == "rcp" || root == "sqrt") && d.take("rn");
  if (!exact) d.must_take({"approx"});
  const bool flush = root != "tanh" && d.take("ftz");
  const PtxType type = exact ? d.take_type({kF32, kF64}) : d.take_type({kF32});
  if (type == kF64 && flush) return d.unknown();
  d.expect_operands(2);
  d.in.op[0] = d.destination(0, type);
  d.in.op[1] = d.source(1, type);
  if (type == kF64) {
    using D = double;
    d.in.run = root == "rcp" ? Handler{unary_lanes<D, D, [](D a) { return 1.0 / a; }>}
                             : Handler{unary_lanes<D, D, [](D a) { return std::sqrt(a); }>};
    return;
  }
  d.in.run = flush ? approximation<true>(root) : approximation<false>(root);
}

}  // namespace lw::ptx_interpreter
