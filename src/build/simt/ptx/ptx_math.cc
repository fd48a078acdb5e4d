// Elementary functions. In f32 the powers of two are the processor's (MUFU, 2^-22.5 of the result);
// all else is by the polynomials that every back-end has.
#include <cmath>
#include <cstdint>
#include <span>

#include "absl/strings/str_format.h"
#include "src/base/message.h"
#include "src/build/simt/ptx/ptx_lanes.h"
#include "src/build/simt/ptx/ptx_values.h"
#include "src/kernel/polynomials.h"

namespace lw {
namespace {

constexpr double kLog2E = 1.4426950408889634;

// Formulae of one float type, in registers.
class Formula {
 public:
  Formula(PtxCode* code, Type type)
      : code_(*code), type_(type), single_(type == Type::kF32), t_(single_ ? "f32" : "f64") {}

  using Reg = const std::string&;
  // A sum of two numbers, the second below half a unit in the last place of the first.
  struct Pair {
    std::string high, low;
  };

  std::string number(double value) const { return ptx_number(value, single_); }
  std::string add(Reg a, Reg b) { return op("add.rn.", {a, b}); }
  std::string sub(Reg a, Reg b) { return op("sub.rn.", {a, b}); }
  std::string mul(Reg a, Reg b) { return op("mul.rn.", {a, b}); }
  std::string div(Reg a, Reg b) { return op("div.rn.", {a, b}); }
  std::string fma(Reg a, Reg b, Reg c) { return op("fma.rn.", {a, b, c}); }
  std::string neg(Reg a) { return op("neg.", {a}); }
  std::string abs(Reg a) { return op("abs.", {a}); }
  std::string sqrt(Reg a) { return op("sqrt.rn.", {a}); }
  std::string with_sign(Reg size, Reg sign) { return op("copysign.", {sign, size}); }
  std::string is(const char* order, Reg a, Reg b) {
    const std::string p = code_.flag();
    code_.line("setp.", order, ".", t_, " ", p, ", ", a, ", ", b);
    return p;
  }
  std::string logic(const char* word, Reg a, Reg b) {
    const std::string p = code_.flag();
    code_.line(word, ".pred ", p, ", ", a, ", ", b);
    return p;
  }
  std::string no(Reg a) {
    const std::string p = code_.flag();
    code_.line("not.pred ", p, ", ", a);
    return p;
  }
  std::string pick(Reg condition, Reg then, Reg otherwise) {
    return raw(single_ ? "selp.b32" : "selp.b64", {then, otherwise, condition});
  }
  // NaN passes.
  std::string at_most(double limit, Reg a) {
    return pick(is("gt", a, number(limit)), number(limit), a);
  }
  std::string at_least(double limit, Reg a) {
    return pick(is("lt", a, number(limit)), number(limit), a);
  }
  std::string bits_op(const char* word, Reg a, const std::string& b) {
    return raw(concat(word, single_ ? "32" : "64"), {a, b});
  }
  std::string bits_of(uint64_t value) const { return absl::StrFormat("0x%x", value); }
  std::string horner(Reg x, std::span<const double> coefficients) {
    std::string sum = number(coefficients[0]);
    for (const double c : coefficients.subspan(1)) sum = fma(sum, x, number(c));
    return sum;
  }

  int mantissa() const { return single_ ? 23 : 52; }
  uint64_t one_bits() const { return single_ ? 0x3f800000 : 0x3ff0000000000000; }

  // 2^n of an integer n in the range of normal exponents, in the low bits.
  std::string power_of_two(Reg n) {
    return bits_op("add.s", bits_op("shl.b", n, concat(mantissa())), bits_of(one_bits()));
  }
  // n = x / ln 2 rounded, also in the low bits of `shifted`, and r = x - n ln 2.
  struct Reduced {
    std::string shifted, n, r;
  };
  Reduced reduce(Reg x) {
    const std::string magic = number(single_ ? 0x1.8p23 : 0x1.8p52);
    Reduced by;
    by.shifted = fma(x, number(kLog2E), magic);
    by.n = sub(by.shifted, magic);
    by.r = fma(by.n, number(single_ ? -kLn2High32 : -kLn2High64), x);
    by.r = fma(by.n, number(single_ ? -kLn2Low32 : -kLn2Low64), by.r);
    return by;
  }
  std::span<const double> exp_coefficients() const {
    return single_ ? std::span<const double>(kExp32) : std::span<const double>(kExp64);
  }

  std::string exp(Reg x) { return single_ ? exp32(x) : exp64(x, nullptr); }

  // 2^t of t = x / ln 2, and of what rounding t has lost as a factor near 1.
  std::string exp32(Reg given) {
    constexpr double kLog2E32 = 1.44269502162933349609375;  // as f32; what is left of it
    const std::string x = at_least(-150, at_most(89, given));
    const std::string t = mul(x, number(kLog2E32));
    const std::string lost = fma(x, number(kLog2E - kLog2E32), fma(x, number(kLog2E32), neg(t)));
    const std::string power = raw("ex2.approx.f32", {t});
    return mul(power, fma(lost, number(M_LN2), number(1)));
  }

  // e^(x + low).
  std::string exp64(Reg given, const std::string* low) {
    const Reduced by = reduce(at_least(-746, at_most(710, given)));
    const std::string r = low == nullptr ? by.r : add(by.r, *low);
    const std::string p = fma(fma(horner(r, exp_coefficients()), r, number(1)), r, number(1));
    // In two steps, whose product alone may be out of range; of `shifted` the low bits are an
    // integer.
    const std::string n = bits_op("sub.s", by.shifted, bits_of(0x4338000000000000));
    const std::string half = bits_op("shr.s", n, "1");
    return mul(mul(p, power_of_two(half)), power_of_two(bits_op("sub.s", n, half)));
  }

  // expm1(2|x|) / (expm1(2|x|) + 2), which does not cancel anywhere.
  std::string tanh(Reg x) {
    const std::string size = abs(x);
    const Reduced by = reduce(at_most(single_ ? 20 : 40, add(size, size)));
    const std::string magic = bits_of(single_ ? 0x4b400000 : 0x4338000000000000);
    const std::string power = power_of_two(bits_op("sub.s", by.shifted, magic));
    const std::string p = fma(mul(by.r, by.r), horner(by.r, exp_coefficients()), by.r);  // e^r - 1
    const std::string e = fma(power, p, sub(power, number(1)));
    return with_sign(div(e, add(e, number(2))), x);
  }

  std::string sigmoid(Reg x) {
    const std::string e = exp(neg(abs(x)));
    const std::string one = number(1);
    return div(pick(is("lt", x, number(0)), e, one), add(e, one));
  }

  // x = m 2^k with m in [sqrt(1/2), sqrt(2)): gives m - 1, and k.
  std::string split(Reg x, std::string* exponent) {
    const uint64_t root = single_ ? 0x3f3504f3 : 0x3fe6a09e667f3bcd;
    const double lift = single_ ? 25 : 54;
    const std::string denormal = is("lt", x, number(single_ ? 0x1p-126 : 0x1p-1022));
    const std::string normal = pick(denormal, mul(x, number(std::exp2(lift))), x);
    const std::string shifted = bits_op("add.s", normal, bits_of(one_bits() - root));
    // The biased exponent as the low bits of 2^mantissa, less both.
    const double base = single_ ? 0x1p23 : 0x1p52, bias = base + (single_ ? 127 : 1023);
    const std::string top = bits_op("shr.u", shifted, concat(mantissa()));
    const std::string k = bits_op("or.b", top, bits_of(single_ ? 0x4b000000 : 0x4330000000000000));
    *exponent = sub(k, pick(denormal, number(bias + lift), number(bias)));
    const std::string m = bits_op("and.b", shifted, bits_of((uint64_t{1} << mantissa()) - 1));
    return sub(bits_op("add.s", m, bits_of(root)), number(1));
  }

  std::string log(Reg x) {
    std::string k, result;
    const std::string f = split(x, &k);
    if (single_) {
      const std::string z = mul(f, f);
      std::string y = mul(mul(f, z), horner(f, kLog32));
      y = fma(z, number(-0.5), fma(k, number(kLn2Low32), y));
      result = fma(k, number(kLn2High32), add(f, y));
    } else {
      const std::string s = div(f, add(f, number(2)));
      const std::string z = mul(s, s), half = mul(mul(f, f), number(0.5));
      const std::string rest = fma(s, add(half, mul(z, horner(z, kLog64))),
                                   mul(k, number(kLn2Low64)));
      result = sub(mul(k, number(kLn2High64)), sub(sub(half, rest), f));
    }
    const std::string infinity = number(INFINITY);
    result = pick(is("eq", x, infinity), infinity, result);
    result = pick(is("eq", x, number(0)), number(-INFINITY), result);
    return pick(is("ltu", x, number(0)), number(NAN), result);
  }

  std::string erf(Reg x) { return single_ ? erf32(x) : erf64(x); }

  std::string erf32(Reg x) {
    constexpr double kOne = 3.92428337;    // from where on it is 1
    const std::string size = at_most(kOne, abs(x));
    const std::string u = fma(mul(size, size), number(0.129870129870), number(-1));
    const std::string y = mul(size, horner(u, kErf32));
    return with_sign(at_most(1, y), x);
  }

  std::string erf64(Reg x) {
    const std::string size = at_most(6, abs(x)), square = mul(size, size);
    const std::string near = mul(size, horner(square, kErf64));
    const std::string t = div(sub(size, number(3)), add(size, number(3)));
    const std::string far = fma(neg(exp64(neg(square), nullptr)), horner(t, kErfc64), number(1));
    return with_sign(pick(is("lt", size, number(1)), near, far), x);
  }

  std::string rsqrt(Reg a) {
    if (single_) return raw("rsqrt.approx.f32", {a});
    return div(number(1), sqrt(a));
  }

  Pair sum(Reg a, Reg b) {
    const std::string high = add(a, b), back = sub(high, a);
    return {high, add(sub(a, sub(high, back)), sub(b, back))};
  }
  Pair fast_sum(Reg a, Reg b) {            // |a| >= |b|, or a is 0
    const std::string high = add(a, b);
    return {high, sub(b, sub(high, a))};
  }
  Pair product(Reg a, Reg b) {
    const std::string high = mul(a, b);
    return {high, fma(a, b, neg(high))};
  }
  Pair times(const Pair& a, const Pair& b) {
    const Pair p = product(a.high, b.high);
    return fast_sum(p.high, add(p.low, add(mul(a.high, b.low), mul(a.low, b.high))));
  }

  // log(x) for x > 0, finite, to about 2^-64 of itself (llvm_math.cc). f64 alone.
  Pair log_pair(Reg x) {
    std::string k;
    const std::string f = split(x, &k);
    const Pair v = sum(number(2), f);
    const std::string s_high = div(f, v.high);
    const Pair back = product(s_high, v.high);
    const std::string rest = sub(sub(sub(f, back.high), back.low), mul(s_high, v.low));
    const Pair s = {s_high, div(rest, v.high)};
    const Pair z = times(s, s);
    const std::string w = mul(z.high, horner(z.high, kPow64));
    const Pair factor = fast_sum(number(0x1.5555555555555p-1),
                                 add(w, number(0x1.5555555555555p-55)));
    const Pair tail = times(times(s, z), factor);
    const Pair total = sum(mul(k, number(kLn2High64)), add(s.high, s.high));
    const Pair more = sum(total.high, tail.high);
    const std::string low = add(add(total.low, more.low), add(tail.low, add(s.low, s.low)));
    return fast_sum(more.high, fma(k, number(kLn2Low64), low));
  }

  std::string pow(Reg x, Reg y) {
    const std::string size = abs(x), infinity = number(INFINITY), zero = number(0);
    const Pair log = log_pair(size);
    const Pair p = product(y, log.high);
    const std::string low = fma(y, log.low, p.low);
    const std::string little = pick(is("lt", abs(p.high), number(1000)), low, zero);
    std::string result = exp64(p.high, &little);
    // Where the logarithm is infinite, or the exponent: 0, infinity, or 1 for 1.
    const std::string grows = logic("xor", is("gt", size, number(1)), is("lt", y, zero));
    std::string special = logic("or", is("eq", size, infinity), is("eq", size, zero));
    special = logic("or", special, is("eq", abs(y), infinity));
    result = pick(special, pick(grows, infinity, zero), result);
    result = pick(is("eq", size, number(1)), number(1), result);
    // Negative bases: the sign of an odd integral power; nothing real for others.
    const auto floored = [&](Reg a) { return raw("cvt.rmi.f64.f64", {a}); };
    const std::string whole = is("eq", floored(y), y), half = mul(y, number(0.5));
    const std::string odd = logic("and", whole, is("ne", floored(half), half));
    const std::string negative = code_.flag();
    code_.line("setp.lt.s64 ", negative, ", ", x, ", 0");
    result = pick(logic("and", negative, odd), neg(result), result);
    std::string unreal = logic("and", is("lt", x, zero), no(whole));
    unreal = logic("and", unreal, is("ne", size, infinity));
    result = pick(unreal, number(NAN), result);
    return pick(is("eq", y, zero), number(1), result);
  }

 private:
  std::string op(const char* word, const std::vector<std::string>& sources) {
    return raw(concat(word, t_), sources);
  }
  std::string raw(const std::string& instruction, const std::vector<std::string>& sources) {
    const std::string dst = ptx_register(code_, type_);
    std::string text = concat(instruction, " ", dst);
    for (const std::string& source : sources) text += ", " + source;
    code_.line(text);
    return dst;
  }

  PtxCode& code_;
  const Type type_;
  const bool single_;
  const std::string t_;
};

}  // namespace

std::string ptx_function(PtxCode& code, ExprOp op, Type type, const std::string& a) {
  Formula f(&code, type);
  switch (op) {
    case ExprOp::kExp: return f.exp(a);
    case ExprOp::kLog: return f.log(a);
    case ExprOp::kSqrt: return f.sqrt(a);
    case ExprOp::kRsqrt: return f.rsqrt(a);
    case ExprOp::kTanh: return f.tanh(a);
    case ExprOp::kErf: return f.erf(a);
    case ExprOp::kSigmoid: return f.sigmoid(a);
    default: return "";
  }
}

std::string ptx_pow(PtxCode& code, Type type, const std::string& a, const std::string& b) {
  const auto wide = [&](const std::string& x) { return ptx_cast(code, Type::kF64, type, x); };
  return ptx_cast(code, type, Type::kF64, Formula(&code, Type::kF64).pow(wide(a), wide(b)));
}

}  // namespace lw
