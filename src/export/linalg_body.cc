// Values are held in the types of registers: f16 and bf16 as f32, rounded where they are stored or
// cast, as kernels do (docs/numbers.md).
#include "src/export/linalg_body.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "src/base/message.h"
#include "src/expr/language/print.h"

namespace lw {
namespace {

bool is_unsigned(Type type) { return row_of(type).kind == TypeKind::kUnsigned; }

int64_t largest(Type type) {
  const int bits = row_of(type).bits - is_signed(type);
  return bits == 63 ? INT64_MAX : (int64_t{1} << bits) - 1;
}
int64_t smallest(Type type) { return is_signed(type) ? -largest(type) - 1 : 0; }

// Of a 16-bit float.
unsigned infinity_bits(Type type, bool negative) {
  const int fraction = row_of(type).fraction_bits;
  const unsigned exponent = (1u << row_of(type).exponent_bits) - 1;
  return (negative ? 0x8000u : 0u) | exponent << fraction;
}

// arith's name of the operation; null: it is none.
const char* binary_word(ExprOp op, Type type) {
  const bool floats = is_float(type), unsigned_ = is_unsigned(type);
  switch (op) {
    case ExprOp::kAdd: return floats ? "arith.addf" : "arith.addi";
    case ExprOp::kSub: return floats ? "arith.subf" : "arith.subi";
    case ExprOp::kMul: return floats ? "arith.mulf" : "arith.muli";
    case ExprOp::kDiv: return floats ? "arith.divf" : unsigned_ ? "arith.divui" : "arith.floordivsi";
    case ExprOp::kPow: return "math.powf";
    case ExprOp::kAnd: return "arith.andi";
    case ExprOp::kOr: return "arith.ori";
    default: return nullptr;
  }
}

const char* comparison_word(ExprOp op, Type type) {
  const int kind = is_float(type) ? 0 : is_signed(type) ? 1 : 2;
  static constexpr const char* kWords[][3] = {
      {"oeq", "eq", "eq"},   {"une", "ne", "ne"},   {"olt", "slt", "ult"},
      {"ole", "sle", "ule"}, {"ogt", "sgt", "ugt"}, {"oge", "sge", "uge"}};
  switch (op) {
    case ExprOp::kEq: return kWords[0][kind];
    case ExprOp::kNe: return kWords[1][kind];
    case ExprOp::kLt: case ExprOp::kMin: return kWords[2][kind];
    case ExprOp::kLe: return kWords[3][kind];
    case ExprOp::kGt: case ExprOp::kMax: return kWords[4][kind];
    case ExprOp::kGe: return kWords[5][kind];
    default: return nullptr;
  }
}

const char* unary_word(ExprOp op) {
  switch (op) {
    case ExprOp::kExp: return "math.exp";
    case ExprOp::kLog: return "math.log";
    case ExprOp::kSqrt: return "math.sqrt";
    case ExprOp::kRsqrt: return "math.rsqrt";
    case ExprOp::kTanh: return "math.tanh";
    case ExprOp::kErf: return "math.erf";
    case ExprOp::kFloor: return "math.floor";
    case ExprOp::kCeil: return "math.ceil";
    case ExprOp::kRound: return "math.roundeven";
    default: return nullptr;
  }
}

class BodyPrinter {
 public:
  BodyPrinter(const Nest& nest, const Operation& operation) : nest_(nest), operation_(operation) {}

  absl::StatusOr<std::string> print() {
    const Stage& stage = nest_.stages[operation_.stage];
    const Tensor& tensor = nest_.program->tensors[stage.tensor];
    std::string value = print(operation_.value);
    value = stored(tensor.type, convert(operation_.value->type, register_type(tensor.type), value));
    if (tensor.reduce != Reduce::kNone) {
      value = line(concat(combiner_word(tensor.reduce, tensor.type), " %out, ", value, " : ",
                          mlir_type(tensor.type)));
    }
    if (!why_.empty()) return absl::FailedPreconditionError(concat(stage.name, ": ", why_));
    return text_ + concat("    linalg.yield ", value, " : ", mlir_type(tensor.type), "\n");
  }

 private:
  std::string line(const std::string& operation) {
    std::string name = concat("%v", next_++);
    text_ += concat("    ", name, " = ", operation, "\n");
    return name;
  }

  std::string constant(Type type, double number, int64_t integer) {
    const Type held = register_type(type);
    return line(concat("arith.constant ", mlir_constant(held, number, integer),
                       held == Type::kBool ? "" : concat(" : ", mlir_type(held))));
  }

  std::string compare(std::string_view word, Type type, const std::string& a,
                      const std::string& b) {
    return line(concat(is_float(type) ? "arith.cmpf " : "arith.cmpi ", word, ", ", a, ", ", b,
                       " : ", mlir_type(register_type(type))));
  }

  std::string select(const std::string& condition, const std::string& yes, const std::string& no,
                     Type type) {
    return line(concat("arith.select ", condition, ", ", yes, ", ", no, " : ",
                       mlir_type(register_type(type))));
  }

  std::string cast(std::string_view word, const std::string& value, Type from, Type to) {
    return line(concat(word, " ", value, " : ", mlir_type(from), " to ", mlir_type(to)));
  }

  // From memory to registers and back.
  std::string loaded(Type type, const std::string& value) {
    return is_narrow(type) ? cast("arith.extf", value, type, register_type(type)) : value;
  }
  std::string stored(Type type, const std::string& value) {
    return is_narrow(type) ? cast("arith.truncf", value, register_type(type), type) : value;
  }

  // Rounds toward zero and saturates; NaN gives 0.
  std::string float_to_int(Type from, Type to, const std::string& value) {
    const std::string zero = constant(from, 0, 0);
    const double beyond = std::ldexp(1.0, row_of(to).bits - is_signed(to));
    const std::string above = compare("oge", from, value, constant(from, beyond, 0));
    const std::string below =
        compare("olt", from, value, constant(from, static_cast<double>(smallest(to)), 0));
    const std::string none = compare("uno", from, value, value);
    std::string outside = line(concat("arith.ori ", above, ", ", below, " : i1"));
    outside = line(concat("arith.ori ", outside, ", ", none, " : i1"));
    const std::string inside = select(outside, zero, value, from);
    const Type wide = size_of(to) < size_of(Type::kI32) ? Type::kI32 : to;
    std::string result = cast("arith.fptosi", inside, from, wide);
    if (wide != to) result = cast("arith.trunci", result, wide, to);
    result = select(above, constant(to, 0, largest(to)), result, to);
    return select(below, constant(to, 0, smallest(to)), result, to);
  }

  // Between types of registers.
  std::string convert(Type from, Type to, const std::string& value) {
    from = register_type(from);
    if (from == to) return value;
    if (is_float(from) && is_float(to))
      return cast(size_of(from) < size_of(to) ? "arith.extf" : "arith.truncf", value, from, to);
    if (to == Type::kBool)
      return compare(is_float(from) ? "une" : "ne", from, value, constant(from, 0, 0));
    if (is_float(from)) return float_to_int(from, to, value);
    if (is_float(to))
      return cast(is_signed(from) ? "arith.sitofp" : "arith.uitofp", value, from, to);
    if (row_of(from).bits == row_of(to).bits) return value;
    if (row_of(from).bits > row_of(to).bits) return cast("arith.trunci", value, from, to);
    return cast(is_signed(from) ? "arith.extsi" : "arith.extui", value, from, to);
  }

  std::string print_cast(const ExprNode& e) {
    const std::string value = convert(e.args[0]->type, register_type(e.type), print(e.args[0]));
    return is_narrow(e.type) ? loaded(e.type, stored(e.type, value)) : value;
  }

  // Indices of a gather are clamped into the tensor.
  std::string gather(const ExprNode& read) {
    const Tensor& tensor = nest_.program->tensors[read.index];
    std::vector<std::string> indices;
    for (size_t d = 0; d < read.args.size(); ++d) {
      std::string index = print(read.args[d]);
      index = line(concat("arith.maxsi ", index, ", ", constant(Type::kI64, 0, 0), " : i64"));
      index = line(concat("arith.minsi ", index, ", ",
                          constant(Type::kI64, 0, tensor.shape[d] - 1), " : i64"));
      indices.push_back(line(concat("arith.index_cast ", index, " : i64 to index")));
    }
    const std::string shape = absl::StrJoin(tensor.shape, "x") + (tensor.shape.empty() ? "" : "x");
    return loaded(tensor.type,
                  line(concat("tensor.extract %t", read.index, "[", absl::StrJoin(indices, ", "),
                              "] : tensor<", shape, mlir_type(tensor.type), ">")));
  }

  std::string print_pad(const ExprNode& e) {
    const ExprNode& read = *e.args[0];
    const Tensor& tensor = nest_.program->tensors[read.index];
    std::string inside = constant(Type::kBool, 0, 1);
    for (size_t d = 0; d < read.args.size(); ++d) {
      const std::string index = print(read.args[d]);
      const std::string starts =
          compare("sge", Type::kI64, index, constant(Type::kI64, 0, 0));
      const std::string ends =
          compare("slt", Type::kI64, index, constant(Type::kI64, 0, tensor.shape[d]));
      inside = line(concat("arith.andi ", inside, ", ", starts, " : i1"));
      inside = line(concat("arith.andi ", inside, ", ", ends, " : i1"));
    }
    const std::string fill = print(e.args[1]);
    return select(inside, gather(read), fill, e.type);
  }

  std::string print_division(const ExprNode& e, const std::string& a, const std::string& b) {
    const Type type = e.type;
    if (!is_float(type) && (!is_const(e.args[1]) || e.args[1]->integer == 0))
      why_ = "it divides by an integer that may be 0";
    if (is_float(type) && e.op == ExprOp::kMod) why_ = "it takes the remainder of a float";
    if (e.op == ExprOp::kMod && is_unsigned(type))
      return line(concat("arith.remui ", a, ", ", b, " : ", mlir_type(type)));
    const std::string quotient =
        line(concat(binary_word(ExprOp::kDiv, type), " ", a, ", ", b, " : ",
                    mlir_type(register_type(type))));
    if (e.op == ExprOp::kDiv) return quotient;
    const std::string whole =
        line(concat("arith.muli ", quotient, ", ", b, " : ", mlir_type(type)));
    return line(concat("arith.subi ", a, ", ", whole, " : ", mlir_type(type)));
  }

  std::string print_binary(const ExprNode& e) {
    const std::string a = print(e.args[0]), b = print(e.args[1]);
    const Type type = e.args[0]->type;
    if (e.op == ExprOp::kMin || e.op == ExprOp::kMax)
      return select(compare(comparison_word(e.op, type), type, a, b), a, b, type);
    if (const char* word = comparison_word(e.op, type)) return compare(word, type, a, b);
    if (e.op == ExprOp::kDiv || e.op == ExprOp::kMod) return print_division(e, a, b);
    return line(concat(binary_word(e.op, type), " ", a, ", ", b, " : ",
                       mlir_type(register_type(type))));
  }

  std::string print_unary(const ExprNode& e) {
    const std::string a = print(e.args[0]);
    const Type type = e.type;
    const std::string_view word = mlir_type(register_type(type));
    if (e.op == ExprOp::kNot)
      return line(concat("arith.xori ", a, ", ", constant(Type::kBool, 0, 1), " : i1"));
    if (e.op == ExprOp::kNeg && is_float(type)) return line(concat("arith.negf ", a, " : ", word));
    if (e.op == ExprOp::kNeg)
      return line(concat("arith.subi ", constant(type, 0, 0), ", ", a, " : ", word));
    if (e.op == ExprOp::kAbs && is_unsigned(type)) return a;
    if (e.op == ExprOp::kAbs)
      return line(concat(is_float(type) ? "math.absf " : "math.absi ", a, " : ", word));
    if (e.op == ExprOp::kSigmoid) {
      const std::string one = constant(type, 1, 0);
      std::string down = line(concat("arith.negf ", a, " : ", word));
      down = line(concat("math.exp ", down, " : ", word));
      down = line(concat("arith.addf ", one, ", ", down, " : ", word));
      return line(concat("arith.divf ", one, ", ", down, " : ", word));
    }
    return line(concat(unary_word(e.op), " ", a, " : ", word));
  }

  std::string print_node(const ExprNode& e) {
    if (const auto operand = operation_.operand_of.find(&e); operand != operation_.operand_of.end())
      return loaded(e.type, concat("%in", operand->second));
    switch (e.op) {
      case ExprOp::kConst: return constant(e.type, e.number, e.integer);
      case ExprOp::kAxis: {
        const std::string index = line(concat("linalg.index ", e.index, " : index"));
        return line(concat("arith.index_cast ", index, " : index to i64"));
      }
      case ExprOp::kRead: return gather(e);
      case ExprOp::kPad: return print_pad(e);
      case ExprOp::kSelect: {
        const std::string condition = print(e.args[0]), yes = print(e.args[1]);
        return select(condition, yes, print(e.args[2]), e.type);
      }
      case ExprOp::kCast: return print_cast(e);
      default: return is_binary(e.op) ? print_binary(e) : print_unary(e);
    }
  }

  std::string print(const Expr& e) {
    if (const auto known = known_.find(e.get()); known != known_.end()) return known->second;
    std::string name = print_node(*e);
    known_[e.get()] = name;
    return name;
  }

  const Nest& nest_;
  const Operation& operation_;
  std::string text_, why_;
  absl::flat_hash_map<const ExprNode*, std::string> known_;
  int next_ = 0;
};

}  // namespace

std::string_view mlir_type(Type type) {
  if (is_float(type) || type == Type::kI64 || type == Type::kI32) return type_name(type);
  return type == Type::kBool ? "i1" : size_of(type) == 1 ? "i8" : "i16";
}

std::string mlir_constant(Type type, double number, int64_t integer) {
  if (type == Type::kBool) return integer ? "true" : "false";
  if (!is_float(type)) {
    // An unsigned byte above 127 is the signed one of the same bits.
    return concat(type == Type::kU8 ? static_cast<int64_t>(static_cast<int8_t>(integer)) : integer);
  }
  if (!std::isfinite(number)) {
    return type == Type::kF64 ? absl::StrFormat("0x%016X", std::bit_cast<uint64_t>(number))
           : type == Type::kF32
               ? absl::StrFormat("0x%08X", std::bit_cast<uint32_t>(static_cast<float>(number)))
               : absl::StrFormat("0x%04X", infinity_bits(type, number < 0));
  }
  std::string text = print_number(type, number);  // which MLIR takes with a point alone
  if (text.find('.') == std::string::npos)
    text.insert(std::min(text.find('e'), text.size()), ".0");
  return text;
}

const char* combiner_word(Reduce reduce, Type type) {
  const bool floats = is_float(type), unsigned_ = is_unsigned(type);
  switch (reduce) {
    case Reduce::kSum: return floats ? "arith.addf" : "arith.addi";
    case Reduce::kProd: return floats ? "arith.mulf" : "arith.muli";
    case Reduce::kMax: return floats ? "arith.maxnumf" : unsigned_ ? "arith.maxui" : "arith.maxsi";
    default: return floats ? "arith.minnumf" : unsigned_ ? "arith.minui" : "arith.minsi";
  }
}

absl::StatusOr<std::string> linalg_body(const Nest& nest, const Operation& operation) {
  return BodyPrinter(nest, operation).print();
}

}  // namespace lw
