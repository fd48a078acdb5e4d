// Compilers make one operation of a product and a sum where the device has that; fma() would be
// computed in integers where it has not.
#include "src/build/simt/opencl_math.h"

#include <cmath>
#include <span>
#include <utility>

#include "src/base/message.h"
#include "src/kernel/polynomials.h"
#include "src/build/simt/opencl_text.h"

namespace lw {
namespace {

// The text of one function of x, line by line.
class Text {
 public:
  Text(std::string name, int lanes)
      : name_(std::move(name)), type_(cl_type(Type::kF32, lanes)),
        integer_(cl_signed(Type::kF32, lanes)) {}

  std::string number(double value) const {
    return concat("(", type_, ")(", cl_constant(Type::kF32, value, 0), ")");
  }
  std::string integer(int value) const { return concat("(", integer_, ")(", value, ")"); }
  std::string bits(const std::string& a) const { return concat("as_", integer_, "(", a, ")"); }
  std::string from_bits(const std::string& a) const { return concat("as_", type_, "(", a, ")"); }

  void let(const std::string& variable, const std::string& value) {
    body_ += concat("  const ", type_, " ", variable, " = ", value, ";\n");
  }
  // `sum` = the polynomial in `x`.
  void horner(const std::string& sum, const std::string& x, std::span<const double> coefficients) {
    body_ += concat("  ", type_, " ", sum, " = ", number(coefficients[0]), ";\n");
    for (const double c : coefficients.subspan(1)) {
      body_ += concat("  ", sum, " = ", sum, " * ", x, " + ", number(c), ";\n");
    }
  }
  // n = x / ln 2 rounded, by an addition that leaves it in the low bits of `m`; r = x - n ln 2.
  void reduce(const std::string& x) {
    constexpr double kMagic = 0x1.8p23;
    let("m", concat(x, " * ", number(1.4426950408889634), " + ", number(kMagic)));
    let("n", concat("m - ", number(kMagic)));
    let("near", concat("n * ", number(-kLn2High32), " + ", x));
    let("r", concat("n * ", number(-kLn2Low32), " + near"));
    horner("q", "r", kExp32);
  }
  std::string done(const std::string& result) const {
    return concat("static inline ", type_, " ", name_, "(", type_, " x) {\n", body_, "  return ",
                  result, ";\n}\n");
  }

 private:
  std::string name_, type_, integer_, body_;
};

// Exponents are added as integers. What is below 2^-126 has none: it is computed times 2^64.
std::string exp_text(Text t) {
  constexpr double kLeast = -87.336544, kMost = 88.722839;  // ln 2^-126, ln 2^128
  constexpr double kNothing = -104;        // where the result has become zero
  t.let("y", concat("x < ", t.number(kNothing), " ? ", t.number(kNothing), " : x"));
  t.reduce("y");
  t.let("p", concat("(q * r + ", t.number(1), ") * r + ", t.number(1)));
  const std::string small = concat("y < ", t.number(kLeast));
  t.let("e", t.from_bits(concat(t.bits("p"), " + ((", t.bits("m"), " + (", small, " ? ",
                                t.integer(64), " : ", t.integer(0), ")) << 23)")));
  t.let("some", concat("e * (", small, " ? ", t.number(0x1p-64), " : ", t.number(1), ")"));
  // A sum, which passes NaN on.
  return t.done(concat("x <= ", t.number(kMost), " ? some : x + ", t.number(INFINITY)));
}

// expm1(2|x|) / (expm1(2|x|) + 2), which does not cancel anywhere.
std::string tanh_text(Text t) {
  t.let("twice", "fabs(x) + fabs(x)");
  t.let("size", concat("twice > ", t.number(20), " ? ", t.number(20), " : twice"));
  t.reduce("size");
  t.let("power", t.from_bits(concat("(", t.bits("m"), " << 23) + 0x3f800000")));
  t.let("p", "r * r * q + r");             // e^r - 1
  t.let("e", concat("power * p + (power - ", t.number(1), ")"));
  return t.done(concat("copysign(e / (e + ", t.number(2), "), x)"));
}

std::string sigmoid_text(Text t, const std::string& exp) {
  t.let("e", concat(exp, "(-fabs(x))"));
  return t.done(concat("(x < ", t.number(0), " ? e : ", t.number(1), ") / (e + ", t.number(1),
                       ")"));
}

std::string erf_text(Text t) {
  constexpr double kOne = 3.92428337;      // from where on it is 1
  t.let("size", concat("fabs(x) > ", t.number(kOne), " ? ", t.number(kOne), " : fabs(x)"));
  t.let("u", concat("size * size * ", t.number(0.129870129870), " - ", t.number(1)));
  t.horner("q", "u", kErf32);
  t.let("y", "size * q");
  return t.done(concat("copysign(y > ", t.number(1), " ? ", t.number(1), " : y, x)"));
}

// By an instruction, of compilers that make a processor's code at once: PoCL 3.1 computes rint of
// vectors lane by lane.
std::string rounding(const char* word, const char* builtin, Prelude* prelude) {
  prelude->use_has_builtin();
  const std::string name = concat("lw_", word);
  return prelude->use(
      name, concat("#if __has_builtin(", builtin,
                   ") && (defined(__x86_64__) || defined(__aarch64__))\n#define ", name, "(x) ",
                   builtin, "(x)\n#else\n#define ", name, "(x) ", word, "(x)\n#endif\n"));
}

}  // namespace

std::string cl_own_function(ExprOp op, int lanes, Prelude* prelude) {
  const auto named = [&](const char* word) {
    return concat("lw_", word, "_", cl_type(Type::kF32, lanes));
  };
  const auto use = [&](const std::string& name, const std::string& text) {
    return prelude->use(name, text);
  };
  switch (op) {
    case ExprOp::kExp: return use(named("exp"), exp_text({named("exp"), lanes}));
    case ExprOp::kTanh: return use(named("tanh"), tanh_text({named("tanh"), lanes}));
    case ExprOp::kErf: return use(named("erf"), erf_text({named("erf"), lanes}));
    case ExprOp::kSigmoid:
      return use(named("sigmoid"), sigmoid_text({named("sigmoid"), lanes},
                                                cl_own_function(ExprOp::kExp, lanes, prelude)));
    case ExprOp::kFloor: return rounding("floor", "__builtin_elementwise_floor", prelude);
    case ExprOp::kCeil: return rounding("ceil", "__builtin_elementwise_ceil", prelude);
    case ExprOp::kRound: return rounding("rint", "__builtin_elementwise_roundeven", prelude);
    default: return "";
  }
}

}  // namespace lw
