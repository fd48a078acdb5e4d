// What vectors and single values need differently: a comparison of vectors gives 0 or -1 in
// integers of their size, of single values 0 or 1.
#include "src/build/simt/opencl_values.h"

#include <algorithm>

#include "src/base/message.h"
#include "src/build/simt/opencl_math.h"
#include "src/build/simt/opencl_text.h"
#include "src/expr/scalar.h"

namespace lw {

namespace {

// What one operation computes from.
struct Operation {
  Type type;                               // of the operands
  int lanes;
  Prelude* prelude;

  bool vector() const { return lanes > 1; }
  std::string type_text() const { return cl_type(type, lanes); }
  std::string splat(const std::string& constant) const {
    return vector() ? concat("(", type_text(), ")(", constant, ")") : constant;
  }
  // Integer arithmetic whose overflow has a meaning, in unsigned words.
  std::string wrapping(const std::string& a, const char* op, const std::string& b) const {
    const std::string word = cl_unsigned(type, lanes);
    if (type == Type::kU8) return vector() ? concat(a, op, b) : concat("(uchar)(", a, op, b, ")");
    if (vector()) {
      return concat("as_", type_text(), "(as_", word, "(", a, ")", op, "as_", word, "(", b, "))");
    }
    // Narrower ones are computed as int.
    if (size_of(type) < 4) return concat("(", type_text(), ")(", a, op, b, ")");
    return concat("(", type_text(), ")((", word, ")", a, op, "(", word, ")", b, ")");
  }
  // A condition as a bool register has it.
  std::string condition(const std::string& text) const {
    if (!vector()) return concat("(char)(", text, ")");
    return size_of(type) == 1 ? concat("as_char", lanes, "(", text, ")")
                              : concat("convert_char", lanes, "(", text, ")");
  }
  std::string compared(const char* op, const std::string& a, const std::string& b) const {
    return condition(concat(a, op, b));
  }
};

// `mask`: a bool register of as many lanes.
std::string chosen(const Operation& o, const std::string& mask, const std::string& then,
                   const std::string& otherwise) {
  if (!o.vector()) return concat(mask, " ? ", then, " : ", otherwise);
  const std::string word = cl_signed(o.type, o.lanes);
  const std::string wide = size_of(o.type) == 1 ? mask : concat("convert_", word, "(", mask, ")");
  return concat("select(", otherwise, ", ", then, ", ", wide, ")");
}

std::string divided(const Operation& o, const std::string& a, const std::string& b, bool quotient) {
  const std::string t = o.type_text();
  const std::string name = concat(quotient ? "lw_div_" : "lw_mod_", t);
  const std::string zero = o.splat(cl_constant(o.type, 0, 0));
  const std::string one = o.splat(cl_constant(o.type, 0, 1));
  const std::string minus = o.splat(cl_constant(o.type, 0, -1));
  const auto pick = [&](const std::string& condition, const std::string& then,
                        const std::string& otherwise) {
    return o.vector() ? concat("select(", otherwise, ", ", then, ", ", condition, ")")
                      : concat("(", condition, ") ? ", then, " : ", otherwise);
  };
  std::string text = concat("static inline ", t, " ", name, "(", t, " a, ", t, " b) {\n");
  const auto line = [&](const auto&... parts) { text += concat("  ", parts..., ";\n"); };
  if (!is_signed(o.type)) {
    line(t, " d = ", pick(concat("b == ", zero), one, "b"));
    line(t, " q = ", quotient ? "a / d" : "a % d");
    line("return ", pick(concat("b == ", zero), zero, "q"));
  } else {
    line(t, " d = ", pick(concat("(b == ", zero, ") | (b == ", minus, ")"), one, "b"));
    line(t, " q = a / d");
    line(t, " r = a - q * d");
    const std::string up = concat("(r != ", zero, ") & ((r ^ d) < ", zero, ")");
    if (quotient) {
      line("q = q + ", o.vector() ? "" : "(", pick(up, minus, zero), o.vector() ? "" : ")");
      line("q = ", pick(concat("b == ", minus), o.wrapping(zero, " - ", "a"), "q"));
      line("return ", pick(concat("b == ", zero), zero, "q"));
    } else {
      line("r = r + ", o.vector() ? "" : "(", pick(up, "d", zero), o.vector() ? "" : ")");
      line("return ", pick(concat("b == ", zero), zero, "r"));
    }
  }
  return concat(o.prelude->use(name, text + "}\n"), "(", a, ", ", b, ")");
}

std::string binary(const Operation& o, ExprOp op, const std::string& a, const std::string& b) {
  const bool floating = is_float(o.type);
  const auto arithmetic = [&](const char* word) {
    return floating ? concat(a, word, b) : o.wrapping(a, word, b);
  };
  switch (op) {
    case ExprOp::kAdd: return arithmetic(" + ");
    case ExprOp::kSub: return arithmetic(" - ");
    case ExprOp::kMul: return arithmetic(" * ");
    case ExprOp::kDiv: return floating ? concat(a, " / ", b) : divided(o, a, b, true);
    case ExprOp::kMod: return divided(o, a, b, false);
    case ExprOp::kMin: case ExprOp::kMax: {
      const char* order = op == ExprOp::kMin ? " < " : " > ";
      if (!floating) return concat(op == ExprOp::kMin ? "min(" : "max(", a, ", ", b, ")");
      if (o.vector()) return concat("select(", b, ", ", a, ", ", a, order, b, ")");
      return concat(a, order, b, " ? ", a, " : ", b);
    }
    case ExprOp::kPow: return concat("pow(", a, ", ", b, ")");
    case ExprOp::kAnd: return concat(a, " & ", b);
    case ExprOp::kOr: return concat(a, " | ", b);
    case ExprOp::kEq: return o.compared(" == ", a, b);
    case ExprOp::kNe: return o.compared(" != ", a, b);
    case ExprOp::kLt: return o.compared(" < ", a, b);
    case ExprOp::kLe: return o.compared(" <= ", a, b);
    case ExprOp::kGt: return o.compared(" > ", a, b);
    case ExprOp::kGe: return o.compared(" >= ", a, b);
    default: return "";
  }
}

std::string unary(const Operation& o, ExprOp op, const std::string& a) {
  const bool floating = is_float(o.type);
  if (o.type == Type::kF32 && o.prelude->processor()) {
    const std::string name = cl_own_function(op, o.lanes, o.prelude);
    if (!name.empty()) return concat(name, "(", a, ")");
  }
  switch (op) {
    case ExprOp::kNeg:
      if (floating) return concat("-", a);
      return o.wrapping(o.splat(cl_constant(o.type, 0, 0)), " - ", a);
    case ExprOp::kNot: return o.vector() ? concat("~", a) : concat("(char)!", a);
    case ExprOp::kAbs:
      if (floating) return concat("fabs(", a, ")");
      if (!is_signed(o.type)) return a;
      return o.vector() ? concat("as_", o.type_text(), "(abs(", a, "))")
                        : concat("(", o.type_text(), ")abs(", a, ")");
    case ExprOp::kExp: return concat("exp(", a, ")");
    case ExprOp::kLog: return concat("log(", a, ")");
    case ExprOp::kSqrt: return concat("sqrt(", a, ")");
    case ExprOp::kRsqrt: return concat("rsqrt(", a, ")");
    case ExprOp::kTanh: return concat("tanh(", a, ")");
    case ExprOp::kErf: return concat("erf(", a, ")");
    case ExprOp::kSigmoid: {
      const std::string one = o.splat(cl_constant(o.type, 1, 1));
      return concat(one, " / (", one, " + exp(-", a, "))");
    }
    case ExprOp::kFloor: return floating ? concat("floor(", a, ")") : a;
    case ExprOp::kCeil: return floating ? concat("ceil(", a, ")") : a;
    case ExprOp::kRound: return floating ? concat("rint(", a, ")") : a;
    default: return "";
  }
}

// ---- conversions --------------------------------------------------------------------------------

// 16-bit floats to f32 and back. OpenCL converts f16 in memory without an extension, and a register
// may be memory; compilers make an instruction of that. bf16 is shifted.
std::string widened(Type from, int lanes, const std::string& a, Prelude* prelude) {
  const std::string f = cl_type(Type::kF32, lanes), s = cl_type(from, lanes);
  const std::string name = concat("lw_from_", from == Type::kBF16 ? "b" : "", "f16x", lanes);
  const std::string many = lanes > 1 ? concat(lanes) : "";
  std::string value = concat("vload_half", many, "(0, (const private half*)&a)");
  if (from == Type::kBF16) {
    const std::string to_u = concat("convert_", cl_unsigned(Type::kF32, lanes), "(a)");
    value = concat("as_", f, "(", lanes > 1 ? to_u : "(uint)a", " << 16)");
  }
  return concat(prelude->use(name, concat("static inline ", f, " ", name, "(", s, " a) { return ",
                                          value, "; }\n")),
                "(", a, ")");
}

std::string narrowed(Type to, int lanes, const std::string& a, Prelude* prelude) {
  const std::string f = cl_type(Type::kF32, lanes), u = cl_unsigned(Type::kF32, lanes);
  const std::string s = cl_type(to, lanes), many = lanes > 1 ? concat(lanes) : "";
  const std::string name = concat("lw_to_", to == Type::kBF16 ? "b" : "", "f16x", lanes);
  std::string text = concat("static inline ", s, " ", name, "(", f, " a) {\n");
  const auto line = [&](const auto&... parts) { text += concat("  ", parts..., ";\n"); };
  if (to == Type::kF16) {
    line(s, " narrow");
    line("vstore_half", many, "_rte(a, 0, (private half*)&narrow)");
    line("return narrow");
  } else {
    const std::string nan = "(w & 0x7fffffffu) > 0x7f800000u";
    line(u, " w = as_", u, "(a)");
    line(u, " nan = ", lanes > 1 ? concat("as_", u, "(", nan, ")") : concat("-(uint)(", nan, ")"));
    line(u, " near = (w + 0x7fffu + (w >> 16 & 1u)) >> 16");
    line("return ", lanes > 1 ? concat("convert_", s) : concat("(", s, ")"),
         "((near & ~nan) | ((w >> 16 | 0x40u) & nan))");
  }
  return concat(prelude->use(name, text + "}\n"), "(", a, ")");
}

std::string cast(Type to, Type from, int lanes, const std::string& a, Prelude* prelude) {
  if (to == from) return a;
  if (is_narrow(from)) {
    return cast(to, Type::kF32, lanes, widened(from, lanes, a, prelude), prelude);
  }
  if (is_narrow(to)) {
    return narrowed(to, lanes, cast(Type::kF32, from, lanes, a, prelude), prelude);
  }
  const Operation o{from, lanes, prelude};
  const std::string type = cl_type(to, lanes);
  if (to == Type::kBool) return o.compared(" != ", a, o.splat(cl_constant(from, 0, 0)));
  if (from == Type::kBool) {
    if (lanes == 1) return concat("(", type, ")", a);
    return size_of(to) == 1 ? concat("as_", type, "(-", a, ")")
                            : concat("convert_", type, "(-", a, ")");
  }
  if (is_float(from) && !is_float(to)) return concat("convert_", type, "_sat(", a, ")");
  if (lanes == 1) return concat("(", type, ")", a);
  if (!is_float(from) && !is_float(to) && size_of(from) == size_of(to)) {
    return concat("as_", type, "(", a, ")");
  }
  return concat("convert_", type, "(", a, ")");
}

// ---- lanes --------------------------------------------------------------------------------------

std::string horizontal(Reduce reduce, Type type, int lanes, const std::string& a,
                       Prelude* prelude) {
  if (lanes == 1) return a;
  const auto combine = [&](int n, const std::string& x, const std::string& y) {
    const Operation o{type, n, prelude};
    return binary(o, combining_op(reduce, type), x, y);
  };
  constexpr const char* kWords[] = {"none", "sum", "prod", "max", "min"};
  const std::string name =
      concat("lw_", kWords[static_cast<int>(reduce)], "_", type_name(type), "x", lanes);
  std::string text = concat("static inline ", cl_type(type), " ", name, "(", cl_type(type, lanes),
                            " a", lanes, ") {\n");
  int n = lanes;
  for (; n > 2; n /= 2) {
    const std::string wide = concat("a", n);
    text += concat("  ", cl_type(type, n / 2), " a", n / 2, " = ",
                   combine(n / 2, wide + ".lo", wide + ".hi"), ";\n");
  }
  // Single booleans are 0 or 1.
  const std::string sign = type == Type::kBool ? "-" : "";
  text += concat("  return ", combine(1, sign + "a2.s0", sign + "a2.s1"), ";\n}\n");
  return concat(prelude->use(name, text), "(", a, ")");
}

// Of scalars alone do sub-groups make sums: each lane by itself.
std::string across(Reduce reduce, Type type, int lanes, const std::string& a) {
  const char* const word = reduce == Reduce::kSum   ? "sub_group_reduce_add("
                           : reduce == Reduce::kMax ? "sub_group_reduce_max("
                                                    : "sub_group_reduce_min(";
  if (lanes == 1) return concat(word, a, ")");
  std::vector<std::string> all;
  for (int l = 0; l < lanes; ++l) all.push_back(concat(word, a, cl_lane(l, lanes), ")"));
  return cl_literal(type, lanes, all);
}

}  // namespace

namespace {

// Of four bytes by four: what drivers have instructions for, or what these mean. Packed operands are
// what every driver with the extension takes; OpenCL C 3.0 says whether it is one.
std::string dot_of_four(Type a, Type b, Prelude* prelude) {
  const std::string x = cl_type(a), y = cl_type(b), name = concat("lw_dot4_", x, "_", y);
  const std::string packed = concat("dot_4x8packed_", is_signed(a) ? "s" : "u",
                                    is_signed(b) ? "s" : "u",
                                    is_signed(a) || is_signed(b) ? "_int" : "_uint");
  return prelude->use(
      name, concat("static inline int ", name, "(", x, "4 a, ", y, "4 b) {\n",
                   "#ifdef __opencl_c_integer_dot_product_input_4x8bit_packed\n  return ", packed,
                   "(as_uint(a), as_uint(b));\n#else\n",
                   "  int4 each = convert_int4(a) * convert_int4(b);\n",
                   "  return each.s0 + each.s1 + each.s2 + each.s3;\n#endif\n}\n"));
}

std::string dot_products(const Kernel& kernel, const Stmt& s, const std::vector<std::string>& names,
                         Prelude* prelude) {
  constexpr int kGroup = 4;
  const Register &dst = kernel.registers[s.dst], &a = kernel.registers[s.srcs[0]],
                 &b = kernel.registers[s.srcs[1]];
  const bool bytes = size_of(a.type) == 1 && size_of(b.type) == 1;
  if (dst.type != Type::kI32 || !bytes || a.lanes != kGroup * dst.lanes) return "";
  const std::string dot = dot_of_four(a.type, b.type, prelude);
  constexpr const char* kQuarters[] = {".s0123", ".s4567", ".s89ab", ".scdef"};
  std::vector<std::string> sums;
  for (int l = 0; l < dst.lanes; ++l) {
    const char* quarter = dst.lanes == 1 ? "" : kQuarters[l];
    sums.push_back(concat(dot, "(", names[s.srcs[0]], quarter, ", ", names[s.srcs[1]], quarter,
                          ")"));
  }
  const Operation o{dst.type, dst.lanes, prelude};
  return o.wrapping(names[s.srcs[2]], " + ",
                    dst.lanes == 1 ? sums[0] : cl_literal(dst.type, dst.lanes, sums));
}

}  // namespace

std::string cl_iota(Type type, int lanes, const std::string& base, int64_t stride) {
  const std::string word = cl_type(type);
  if (lanes == 1) return concat("(", word, ")(", base, ")");
  std::vector<std::string> steps;
  for (int l = 0; l < lanes; ++l) steps.push_back(cl_constant(type, 0, wrap(type, l * stride)));
  const Operation o{type, lanes, nullptr};
  return o.wrapping(concat("(", cl_type(type, lanes), ")((", word, ")(", base, "))"), " + ",
                    cl_literal(type, lanes, steps));
}

std::string cl_lane_mask(int lanes, const std::string& base, int64_t stride) {
  if (lanes == 1) return concat("(char)((", base, ") >= 0)");
  std::vector<std::string> steps;
  for (int l = 0; l < lanes; ++l) steps.push_back(concat(-l * stride));
  return concat("convert_char", lanes, "((int", lanes, ")((int)(", base, ")) >= ",
                cl_literal(Type::kI32, lanes, steps), ")");
}

std::string cl_value(const Kernel& kernel, const Stmt& s, const std::vector<std::string>& names,
                     Prelude* prelude) {
  const Register& dst = kernel.registers[s.dst];
  const auto reg = [&](int i) { return names[s.srcs[i]]; };
  const auto type_of = [&](int i) { return kernel.registers[s.srcs[i]].type; };
  const Operation o{s.srcs[0] >= 0 ? type_of(0) : dst.type, dst.lanes, prelude};
  switch (s.op) {
    case Op::kImmediate: {
      const Operation own{dst.type, dst.lanes, prelude};
      // In a vector true is -1.
      const int64_t integer =
          dst.type == Type::kBool && dst.lanes > 1 ? -(s.integer != 0) : s.integer;
      if (dst.type == Type::kBool) {
        return own.splat(dst.lanes > 1 ? concat("(char)", integer) : concat("(char)", integer));
      }
      return own.splat(cl_constant(dst.type, s.number, integer));
    }
    case Op::kMove: return reg(0);
    case Op::kBroadcast: {
      if (kernel.registers[s.srcs[0]].lanes == dst.lanes) return reg(0);
      if (kernel.registers[s.srcs[0]].lanes != 1) {
        const std::vector<std::string> all(dst.lanes / kernel.registers[s.srcs[0]].lanes, reg(0));
        return cl_literal(dst.type, dst.lanes, all);
      }
      const std::string sign = dst.type == Type::kBool ? "-" : "";
      return concat("(", cl_type(dst.type, dst.lanes), ")(", sign.empty() ? "" : "(char)", sign,
                    reg(0), ")");
    }
    case Op::kUnary: return unary(o, s.expr_op, reg(0));
    case Op::kBinary: return binary(o, s.expr_op, reg(0), reg(1));
    case Op::kFma: {
      const Operation own{dst.type, dst.lanes, prelude};
      if (is_float(dst.type)) return concat("fma(", reg(0), ", ", reg(1), ", ", reg(2), ")");
      return own.wrapping(concat("(", own.wrapping(reg(0), " * ", reg(1)), ")"), " + ", reg(2));
    }
    case Op::kSelect:
      return chosen({dst.type, dst.lanes, prelude}, reg(0), reg(1), reg(2));
    case Op::kCast: return cast(dst.type, type_of(0), dst.lanes, reg(0), prelude);
    case Op::kHorizontal:
      return horizontal(s.reduce, dst.type, kernel.registers[s.srcs[0]].lanes, reg(0), prelude);
    case Op::kAcross:
      return s.integer == 1 ? reg(0) : across(s.reduce, dst.type, dst.lanes, reg(0));
    case Op::kDot: return dot_products(kernel, s, names, prelude);
    case Op::kInterleave: {
      std::vector<std::string> lanes;
      const int n = static_cast<int>(s.many.size()), each = dst.lanes / n;
      for (int l = 0; l < each; ++l) {
        for (int i = 0; i < n; ++i) lanes.push_back(names[s.many[i]] + cl_lane(l, each));
      }
      return cl_literal(dst.type, dst.lanes, lanes);
    }
    case Op::kSlide: {
      std::vector<std::string> lanes;
      for (int l = 0; l < dst.lanes; ++l) {
        const int from = l + static_cast<int>(s.integer);
        lanes.push_back(from < dst.lanes ? reg(0) + cl_lane(from, dst.lanes)
                                         : reg(1) + cl_lane(from - dst.lanes, dst.lanes));
      }
      return cl_literal(dst.type, dst.lanes, lanes);
    }
    default: return "";
  }
}

std::string cl_zip(const Register& row, bool low, Prelude* prelude) {
  const std::string type = cl_type(row.type, row.lanes);
  const std::string name = concat(low ? "lw_zip_low_" : "lw_zip_high_", type);
  const char* const part = low ? ".lo" : ".hi";
  std::string lanes;
  for (int l = 0; l < row.lanes / 2; ++l) {
    const int from = low ? l : row.lanes / 2 + l;
    lanes += concat(", ", from, ", ", row.lanes + from);
  }
  prelude->use_has_builtin();
  return prelude->use(
      name, concat("static inline ", type, " ", name, "(", type, " a, ", type, " b) {\n",
                   "#if __has_builtin(__builtin_shufflevector)\n",
                   "  return __builtin_shufflevector(a, b", lanes, ");\n#else\n  ", type,
                   " both;\n  both.even = a", part, ";\n  both.odd = b", part,
                   ";\n  return both;\n#endif\n}\n"));
}

}  // namespace lw
