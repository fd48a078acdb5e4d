#include "src/build/simt/opencl_text.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>

#include "absl/strings/str_format.h"
#include "src/base/message.h"
#include "src/expr/element.h"
#include "src/expr/scalar.h"

namespace lw {
namespace {

std::string with_lanes(std::string_view element, int lanes) {
  return lanes == 1 ? std::string(element) : concat(element, lanes);
}

constexpr std::string_view kSignedWords[] = {"char", "short", "int", "long"};
constexpr std::string_view kUnsignedWords[] = {"uchar", "ushort", "uint", "ulong"};

int word_of(Type type) {
  return size_of(type) == 1 ? 0 : size_of(type) == 2 ? 1 : size_of(type) == 4 ? 2 : 3;
}

// Keywords, types and the functions that the printer calls; names of C's that macros have.
constexpr std::string_view kReserved[] = {
    "abs",      "all",     "any",      "barrier",  "bool",    "break",    "case",    "ceil",
    "char",     "clamp",   "const",    "constant", "continue", "default", "do",      "double",
    "else",     "enum",    "erf",      "exp",      "extern",  "fabs",     "false",   "float",
    "floor",    "fma",     "for",      "global",   "goto",    "half",     "if",      "image1d_t",
    "inline",   "int",     "kernel",   "local",    "log",     "long",     "max",     "min",
    "packed",   "pow",     "private",  "register", "restrict", "return",  "rint",    "rsqrt",
    "select",   "short",   "signed",   "size_t",   "sizeof",  "sqrt",     "static",  "struct",
    "switch",   "tanh",    "true",     "typedef",  "uchar",   "uint",     "ulong",   "union",
    "unsigned", "ushort",  "void",     "volatile", "while",   "workspace", "INFINITY", "NAN",
    "item",     "group",   "read_only", "write_only", "read_write", "event_t", "sampler_t", "NULL",
    "mad",      "mix",     "sign",     "dot",      "cross",   "length",   "step",    "degrees",
    "asm",      "inf",     "nan",      "linux",    "unix",    "main",     "auto",    "isnan",
    "signbit",  "hypot",   "round",    "trunc",    "cos",     "sin",      "tan",     "fmax",
    "fmin",     "fmod",    "exp2",     "log2",     "cbrt",    "popcount", "rotate",  "distance"};

}  // namespace

std::string cl_type(Type type, int lanes) {
  switch (type) {
    case Type::kF64: return with_lanes("double", lanes);
    case Type::kF32: return with_lanes("float", lanes);
    case Type::kF16: case Type::kBF16: return with_lanes("ushort", lanes);
    case Type::kU8: return with_lanes("uchar", lanes);
    default: return cl_signed(type, lanes);
  }
}

std::string cl_signed(Type type, int lanes) {
  return with_lanes(kSignedWords[word_of(type)], lanes);
}
std::string cl_unsigned(Type type, int lanes) {
  return with_lanes(kUnsignedWords[word_of(type)], lanes);
}

std::string cl_constant(Type type, double number, int64_t integer) {
  if (is_narrow(type)) {
    uint16_t bits = 0;
    store_element(type, reinterpret_cast<std::byte*>(&bits), 0, number);
    return absl::StrFormat("(ushort)0x%04x", bits);
  }
  if (is_float(type)) {
    const bool single = type == Type::kF32;
    if (std::isnan(number)) return single ? "NAN" : "(double)NAN";
    if (std::isinf(number)) {
      return concat(number < 0 ? "-" : "", single ? "INFINITY" : "(double)INFINITY");
    }
    std::string text = single ? absl::StrFormat("%.9g", number) : absl::StrFormat("%.17g", number);
    if (text.find_first_of(".e") == text.npos) text += ".0";
    return single ? text + "f" : text;
  }
  switch (type) {
    case Type::kI64: return integer == INT64_MIN ? "LONG_MIN" : concat(integer, "L");
    case Type::kI32: return integer <= INT32_MIN ? "INT_MIN" : concat(integer);
    default: return concat("(", cl_type(type), ")", wrap(type, integer));
  }
}

std::string cl_literal(Type type, int lanes, const std::vector<std::string>& values) {
  std::string text = concat("(", cl_type(type, lanes), ")(");
  for (size_t i = 0; i < values.size(); ++i) text += concat(i == 0 ? "" : ", ", values[i]);
  return text + ")";
}

std::string cl_lane(int lane, int lanes) {
  return lanes == 1 ? "" : absl::StrFormat(".s%x", lane);
}

std::string cl_name(std::string_view name, std::set<std::string>* taken) {
  std::string word;
  for (char c : name) {
    word += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  }
  if (word.empty() || std::isdigit(static_cast<unsigned char>(word[0]))) word = "t" + word;
  // A register, a variable, a vector type, a helper of the printer's.
  const auto is_numbered = [&](std::string_view stem) {
    return word.starts_with(stem) && word.size() > stem.size() &&
           std::all_of(word.begin() + static_cast<std::ptrdiff_t>(stem.size()), word.end(),
                       [](unsigned char c) { return std::isdigit(c); });
  };
  bool meant = word.starts_with("__") || word.starts_with("lw_") || word.starts_with("cl_") ||
               word.starts_with("as_") || word.starts_with("get_") ||
               word.starts_with("convert_") || word.starts_with("vload") || word.starts_with("vstore") || word.starts_with("CLK_");
  for (const std::string_view stem : {"r", "v", "char", "uchar", "short", "ushort", "int", "uint",
                                      "long", "ulong", "float", "double", "half"}) {
    meant = meant || is_numbered(stem);
  }
  const auto reserved = std::find(std::begin(kReserved), std::end(kReserved), word);
  if (meant || reserved != std::end(kReserved)) word = "t_" + word;
  std::string unique = word;
  for (int n = 2; !taken->insert(unique).second; ++n) unique = concat(word, "_", n);
  return unique;
}

}  // namespace lw
