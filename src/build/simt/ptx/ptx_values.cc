#include "src/build/simt/ptx/ptx_values.h"

#include <bit>
#include <cstdint>

#include "absl/strings/str_format.h"
#include "src/build/simt/ptx/ptx_lanes.h"
#include "src/expr/element.h"
#include "src/expr/scalar.h"

namespace lw {
namespace {

// The type that instructions compute in: "f32", "s32", "u32" of bytes without a sign.
const char* ptx_word_of(Type type) {
  if (is_float(type)) return type == Type::kF64 ? "f64" : "f32";
  if (size_of(type) == 8) return "s64";
  return is_signed(type) ? "s32" : "u32";
}

std::string ptx_do(PtxCode& code, Type result, std::string_view instruction,
                   const std::vector<std::string>& sources) {
  const std::string dst = ptx_register(code, result);
  std::string text = concat(instruction, " ", dst);
  for (const std::string& source : sources) text += ", " + source;
  code.line(text);
  return dst;
}

// What is left of a wider result.
std::string wrapped(PtxCode& code, Type type, const std::string& a) {
  if (size_of(type) >= 4) return a;
  const char* const cut = is_signed(type) ? "bfe.s32" : "bfe.u32";
  return ptx_do(code, type, cut, {a, "0", concat(8 * size_of(type))});
}

std::string arithmetic(PtxCode& code, const char* word, Type type, const std::string& a,
                       const std::string& b) {
  const std::string t = ptx_word_of(type);
  if (is_float(type)) return ptx_do(code, type, concat(word, ".rn.", t), {a, b});
  const char* const low = std::string_view(word) == "mul" ? ".lo." : ".";
  return wrapped(code, type, ptx_do(code, type, concat(word, low, t), {a, b}));
}

// Rounded down; by zero 0, of the lowest number by -1 the lowest.
std::string ptx_divided(PtxCode& code, Type type, const std::string& a, const std::string& b,
                        bool quotient) {
  const std::string t = ptx_word_of(type);
  const bool wide = size_of(type) == 8;
  const std::string bits = wide ? "b64" : "b32";
  const auto flag = [&](const char* order, const std::string& x, const char* y) {
    return ptx_do(code, Type::kBool, concat("setp.", order, ".", t), {x, y});
  };
  const auto pick = [&](const std::string& then, const std::string& otherwise,
                        const std::string& p) {
    return ptx_do(code, type, concat("selp.", bits), {then, otherwise, p});
  };
  const std::string zero = flag("eq", b, "0");
  if (!is_signed(type)) {
    const std::string d = pick("1", b, zero);
    const std::string q = ptx_do(code, type, concat(quotient ? "div." : "rem.", t), {a, d});
    return pick("0", q, zero);
  }
  const std::string minus = flag("eq", b, "-1");
  const std::string odd = ptx_do(code, Type::kBool, "or.pred", {zero, minus});
  const std::string d = pick("1", b, odd);
  const std::string q = ptx_do(code, type, concat("div.", t), {a, d});
  const std::string r = ptx_do(code, type, concat("rem.", t), {a, d});
  // Where the remainder is of the other sign, one less.
  const std::string some = flag("ne", r, "0");
  const std::string signs = ptx_do(code, type, concat("xor.", bits), {r, d});
  const std::string apart = flag("lt", signs, "0");
  const std::string down = ptx_do(code, Type::kBool, "and.pred", {some, apart});
  if (!quotient) {
    const std::string up = ptx_do(code, type, concat("add.", t), {r, d});
    return pick("0", pick(up, r, down), odd);
  }
  const std::string less = ptx_do(code, type, concat("sub.", t), {q, "1"});
  const std::string negated = wrapped(code, type, ptx_do(code, type, concat("neg.", t), {a}));
  return pick("0", pick(negated, pick(less, q, down), minus), zero);
}

std::string compared(PtxCode& code, ExprOp op, Type type, const std::string& a,
                     const std::string& b) {
  const char* order = "";
  switch (op) {
    case ExprOp::kEq: order = "eq"; break;
    case ExprOp::kNe: order = is_float(type) ? "neu" : "ne"; break;
    case ExprOp::kLt: order = "lt"; break;
    case ExprOp::kLe: order = "le"; break;
    case ExprOp::kGt: order = "gt"; break;
    default: order = "ge"; break;
  }
  if (type != Type::kBool) {
    return ptx_do(code, Type::kBool, concat("setp.", order, ".", ptx_word_of(type)), {a, b});
  }
  const auto number = [&](const std::string& p) {
    return ptx_do(code, Type::kI32, "selp.b32", {"1", "0", p});
  };
  return ptx_do(code, Type::kBool, concat("setp.", order, ".s32"), {number(a), number(b)});
}

// 16-bit floats are the bits of a word.
std::string ptx_widened(PtxCode& code, Type from, const std::string& a) {
  if (from == Type::kBF16) return ptx_do(code, Type::kF32, "shl.b32", {a, "16"});
  const std::string half = code.half();
  code.line("cvt.u16.u32 ", half, ", ", a);
  return ptx_do(code, Type::kF32, "cvt.f32.f16", {half});
}

std::string ptx_narrowed(PtxCode& code, Type to, const std::string& a) {
  const char* const convert = to == Type::kBF16 ? "cvt.rn.bf16x2.f32" : "cvt.rn.f16x2.f32";
  return ptx_do(code, to, convert, {ptx_number(0, true), a});
}

// Toward zero, saturated, 0 of no number.
std::string ptx_truncated(PtxCode& code, Type to, Type from, const std::string& a) {
  const std::string f = ptx_word_of(from);
  const bool wide = size_of(to) == 8;
  const Type word = wide ? Type::kI64 : Type::kI32;
  std::string value = ptx_do(code, word, concat("cvt.rzi.", wide ? "s64." : "s32.", f), {a});
  if (wide || from == Type::kF64) {        // else it is 0 by itself
    const std::string nan = ptx_do(code, Type::kBool, concat("setp.nan.", f), {a, a});
    value = ptx_do(code, word, wide ? "selp.b64" : "selp.b32", {"0", value, nan});
  }
  if (size_of(to) >= 4) return value;
  const int bits = 8 * size_of(to);
  const int64_t low = is_signed(to) ? -(int64_t{1} << (bits - 1)) : 0;
  const int64_t high = (int64_t{1} << (is_signed(to) ? bits - 1 : bits)) - 1;
  value = ptx_do(code, to, "max.s32", {value, concat(low)});
  return ptx_do(code, to, "min.s32", {value, concat(high)});
}

}  // namespace

std::string ptx_constant(PtxCode& code, Type type, double number, int64_t integer) {
  if (type == Type::kBool) {               // predicates have no constants
    return ptx_do(code, type, "setp.ne.s32", {integer != 0 ? "1" : "0", "0"});
  }
  std::string text = concat(wrap(type, integer));
  if (is_narrow(type)) {
    uint16_t bits = 0;
    store_element(type, reinterpret_cast<std::byte*>(&bits), 0, number);
    text = concat(bits);
  } else if (is_float(type)) {
    text = ptx_number(number, type == Type::kF32);
  }
  return ptx_do(code, type, ptx_bits(type) == 64 ? "mov.b64" : "mov.b32", {text});
}

std::string ptx_unary(PtxCode& code, ExprOp op, Type type, const std::string& a) {
  const bool floating = is_float(type);
  const std::string t = ptx_word_of(type);
  switch (op) {
    case ExprOp::kNeg:
      if (floating) return ptx_do(code, type, concat("neg.", t), {a});
      if (!is_signed(type)) return wrapped(code, type, ptx_do(code, type, "sub.u32", {"0", a}));
      return wrapped(code, type, ptx_do(code, type, concat("neg.", t), {a}));
    case ExprOp::kNot: return ptx_do(code, type, "not.pred", {a});
    case ExprOp::kAbs:
      if (!floating && !is_signed(type)) return a;
      return wrapped(code, type, ptx_do(code, type, concat("abs.", t), {a}));
    case ExprOp::kFloor: case ExprOp::kCeil: case ExprOp::kRound: {
      if (!floating) return a;
      const char* way = op == ExprOp::kFloor ? "rmi" : op == ExprOp::kCeil ? "rpi" : "rni";
      return ptx_do(code, type, concat("cvt.", way, ".", t, ".", t), {a});
    }
    default: return floating ? ptx_function(code, op, type, a) : "";
  }
}

std::string ptx_binary(PtxCode& code, ExprOp op, Type type, const std::string& a,
                       const std::string& b) {
  const bool floating = is_float(type);
  const std::string t = ptx_word_of(type);
  switch (op) {
    case ExprOp::kAdd: return arithmetic(code, "add", type, a, b);
    case ExprOp::kSub: return arithmetic(code, "sub", type, a, b);
    case ExprOp::kMul: return arithmetic(code, "mul", type, a, b);
    case ExprOp::kDiv:
      return floating ? arithmetic(code, "div", type, a, b) : ptx_divided(code, type, a, b, true);
    case ExprOp::kMod: return ptx_divided(code, type, a, b, false);
    case ExprOp::kMin: case ExprOp::kMax: {
      if (type == Type::kBool) {
        return ptx_do(code, type, op == ExprOp::kMin ? "and.pred" : "or.pred", {a, b});
      }
      return ptx_do(code, type, concat(op == ExprOp::kMin ? "min." : "max.", t), {a, b});
    }
    case ExprOp::kPow: return ptx_pow(code, type, a, b);
    case ExprOp::kAnd: return ptx_do(code, type, "and.pred", {a, b});
    case ExprOp::kOr: return ptx_do(code, type, "or.pred", {a, b});
    default: return is_comparison(op) ? compared(code, op, type, a, b) : "";
  }
}

std::string ptx_fma(PtxCode& code, Type type, const std::string& a, const std::string& b,
                    const std::string& c) {
  const std::string t = ptx_word_of(type);
  if (is_float(type)) return ptx_do(code, type, concat("fma.rn.", t), {a, b, c});
  return wrapped(code, type, ptx_do(code, type, concat("mad.lo.", t), {a, b, c}));
}

std::string ptx_select(PtxCode& code, Type type, const std::string& condition,
                       const std::string& then, const std::string& otherwise) {
  if (type != Type::kBool) {
    return ptx_do(code, type, ptx_bits(type) == 64 ? "selp.b64" : "selp.b32",
                  {then, otherwise, condition});
  }
  const std::string yes = ptx_do(code, type, "and.pred", {condition, then});
  const std::string no = ptx_do(code, type, "not.pred", {condition});
  const std::string other = ptx_do(code, type, "and.pred", {no, otherwise});
  return ptx_do(code, type, "or.pred", {yes, other});
}

std::string ptx_cast(PtxCode& code, Type to, Type from, const std::string& a) {
  if (to == from) return a;
  if (is_narrow(from)) return ptx_cast(code, to, Type::kF32, ptx_widened(code, from, a));
  if (is_narrow(to)) return ptx_narrowed(code, to, ptx_cast(code, Type::kF32, from, a));
  if (to == Type::kBool) {
    const std::string zero = is_float(from) ? ptx_number(0, from == Type::kF32) : "0";
    return compared(code, ExprOp::kNe, from, a, zero);
  }
  if (from == Type::kBool) {
    const bool single = to != Type::kF64;
    const std::string one = is_float(to) ? ptx_number(1, single) : "1";
    const std::string zero = is_float(to) ? ptx_number(0, single) : "0";
    return ptx_do(code, to, ptx_bits(to) == 64 ? "selp.b64" : "selp.b32", {one, zero, a});
  }
  if (is_float(from) && is_float(to)) {
    return ptx_do(code, to, to == Type::kF64 ? "cvt.f64.f32" : "cvt.rn.f32.f64", {a});
  }
  if (is_float(from)) return ptx_truncated(code, to, from, a);
  const std::string f = ptx_word_of(from);
  if (is_float(to)) return ptx_do(code, to, concat("cvt.rn.", ptx_word_of(to), ".", f), {a});
  if (size_of(to) == 8) return ptx_do(code, to, concat("cvt.s64.", f), {a});
  if (size_of(from) == 8) {
    return wrapped(code, to, ptx_do(code, Type::kI32, "cvt.u32.u64", {a}));
  }
  return size_of(to) < size_of(from) || is_signed(to) != is_signed(from) ? wrapped(code, to, a) : a;
}

std::string ptx_exchanged(PtxCode& code, Type type, const std::string& value, int64_t apart) {
  const auto word = [&](const std::string& mine) {
    const std::string other = code.word();
    code.line("shfl.sync.bfly.b32 ", other, ", ", mine, ", ", apart, ", 31, -1");
    return other;
  };
  if (ptx_bits(type) == 32) return word(value);
  if (ptx_bits(type) == 1) {
    return ptx_cast(code, Type::kBool, Type::kI32,
                    word(ptx_cast(code, Type::kI32, Type::kBool, value)));
  }
  const std::string low = code.word(), high = code.word(), both = code.wide();
  code.line("mov.b64 {", low, ", ", high, "}, ", value);
  const std::string other_low = word(low), other_high = word(high);
  code.line("mov.b64 ", both, ", {", other_low, ", ", other_high, "}");
  return both;
}

std::string ptx_dot(PtxCode& code, Type a_type, Type b_type, const std::string& a,
                    const std::string& b, const std::string& sum) {
  const auto word = [](Type type) { return is_signed(type) ? ".s32" : ".u32"; };
  const std::string result = code.word();
  code.line("dp4a", word(a_type), word(b_type), " ", result, ", ", a, ", ", b, ", ", sum);
  return result;
}

// ptxas divides by a constant as by any number, by way of a reciprocal: some 15 instructions. The
// high half of a product is the quotient: of a in 31 bits and 2^(31 + bits) / by, rounded up, whose
// error times a is then below 2^(31 + bits).
std::string ptx_quotient(PtxCode& code, const std::string& a, int64_t most, int64_t by) {
  const auto divisor = static_cast<uint64_t>(by);
  const int bits = std::bit_width(divisor - 1);
  if (std::has_single_bit(divisor)) return ptx_do(code, Type::kI32, "shr.u32", {a, concat(bits)});
  if (most > INT32_MAX) return ptx_do(code, Type::kI32, "div.u32", {a, concat(by)});
  const uint64_t inverse = ((uint64_t{1} << (31 + bits)) + divisor - 1) / divisor;
  const std::string high = ptx_do(code, Type::kI32, "mul.hi.u32", {a, concat(inverse)});
  return ptx_do(code, Type::kI32, "shr.u32", {high, concat(bits - 1)});
}

std::string ptx_remainder(PtxCode& code, const std::string& a, int64_t most, int64_t by) {
  if (std::has_single_bit(static_cast<uint64_t>(by))) {
    return ptx_do(code, Type::kI32, "and.b32", {a, concat(by - 1)});
  }
  if (most > INT32_MAX) return ptx_do(code, Type::kI32, "rem.u32", {a, concat(by)});
  const std::string quotient = ptx_quotient(code, a, most, by);
  return ptx_do(code, Type::kI32, "mad.lo.s32", {quotient, concat(-by), a});
}

}  // namespace lw
