// The printer: a Program in the language itself, one definition a line, all extents as numbers.
#include "src/expr/language/print.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "src/base/message.h"
#include "src/expr/language/syntax.h"

namespace lw {
namespace {

struct Spelling {
  const char* text;
  int level;                               // as in the parser; 6 is unary, 7 atoms
};

Spelling spelling(ExprOp op) {
  switch (op) {
    case ExprOp::kOr: return {"||", 1};
    case ExprOp::kAnd: return {"&&", 2};
    case ExprOp::kEq: return {"==", 3};
    case ExprOp::kNe: return {"!=", 3};
    case ExprOp::kLt: return {"<", 3};
    case ExprOp::kLe: return {"<=", 3};
    case ExprOp::kGt: return {">", 3};
    case ExprOp::kGe: return {">=", 3};
    case ExprOp::kAdd: return {"+", 4};
    case ExprOp::kSub: return {"-", 4};
    case ExprOp::kMul: return {"*", 5};
    case ExprOp::kDiv: return {"/", 5};
    case ExprOp::kMod: return {"%", 5};
    case ExprOp::kNeg: return {"-", 6};
    case ExprOp::kNot: return {"!", 6};
    default: return {"", 7};
  }
}

struct Printer {
  const Program& program;
  const std::vector<Axis>& axes;

  std::string list(const std::vector<Expr>& args, bool index, bool typed = false) const {
    std::string out;
    for (const Expr& arg : args) {
      out += concat(out.empty() ? "" : ", ", print(arg, 0, index, typed));
    }
    return out;
  }

  // An operation on constants that is not folded (it gives NaN) has only them to show its type.
  static bool all_constant(const ExprNode& e) {
    return std::all_of(e.args.begin(), e.args.end(),
                       [](const Expr& arg) { return arg->op == ExprOp::kConst; });
  }

  // `typed`: nothing around a constant gives it its type, so it must show it.
  std::string constant(const ExprNode& e, bool typed) const {
    if (e.type == Type::kBool) return e.integer ? "true" : "false";
    std::string text =
        is_float(e.type) ? print_number(e.type, e.number) : std::to_string(e.integer);
    return typed ? concat("cast(", type_name(e.type), ", ", text, ")") : text;
  }

  // `index`: inside brackets, where the i64 of an index is not written. `level`: what binds looser
  // is put in parentheses.
  std::string print(const Expr& e, int level, bool index = false, bool typed = false) const {
    switch (e->op) {
      case ExprOp::kConst: {
        const std::string text = constant(*e, typed);
        return text[0] == '-' && level > 4 ? concat("(", text, ")") : text;
      }
      case ExprOp::kAxis: {
        const size_t axis = static_cast<size_t>(e->index);
        return axis < axes.size() ? axes[axis].name : concat("?", e->index);
      }
      case ExprOp::kRead: {
        const size_t tensor = static_cast<size_t>(e->index);
        const std::string name =
            tensor < program.tensors.size() ? program.tensors[tensor].name : "?";
        return concat(name, "[", list(e->args, true), "]");
      }
      case ExprOp::kPad: return concat("pad(", list(e->args, false), ")");
      case ExprOp::kSelect: {
        const bool loose = e->args[1]->op == ExprOp::kConst && e->args[2]->op == ExprOp::kConst;
        return concat("where(", print(e->args[0], 0), ", ", print(e->args[1], 0, false, loose),
                      ", ", print(e->args[2], 0), ")");
      }
      case ExprOp::kCast:
        if (index && e->type == Type::kI64) return print(e->args[0], level);
        return concat("cast(", type_name(e->type), ", ", print(e->args[0], 0), ")");
      default: return operation(*e, level, index);
    }
  }

  std::string operation(const ExprNode& e, int level, bool index) const {
    const Spelling how = spelling(e.op);
    const bool typed = all_constant(e);
    if (how.level == 7) return concat(op_name(e.op), "(", list(e.args, index, typed), ")");
    std::string out;
    if (e.args.size() == 1) {
      out = concat(how.text, print(e.args[0], 6, index, typed));
    } else {
      // Comparisons do not chain; the rest associates to the left.
      const int left = how.level + (how.level == 3), right = how.level + 1;
      out = concat(print(e.args[0], left, index, typed), " ", how.text, " ",
                   print(e.args[1], right, index));
    }
    return how.level < level ? concat("(", out, ")") : out;
  }
};

std::string axis_list(const std::vector<Axis>& axes) {
  std::string out;
  for (const Axis& axis : axes) {
    out += concat(out.empty() ? "" : ", ", axis.name, ": ", axis.extent);
  }
  return out;
}

std::vector<Axis> all_axes(const Tensor& tensor) {
  std::vector<Axis> axes = tensor.axes;
  axes.insert(axes.end(), tensor.reduce_axes.begin(), tensor.reduce_axes.end());
  return axes;
}

std::string definition(const Program& program, const Tensor& tensor) {
  if (tensor.role == Role::kInput) {
    std::string shape;
    for (int64_t extent : tensor.shape) shape += concat(shape.empty() ? "" : ", ", extent);
    return concat("in ", tensor.name, ": ", type_name(tensor.type), "[", shape, "]",
                  tensor.is_const ? " const" : "");
  }
  const std::vector<Axis> axes = all_axes(tensor);
  const bool typed = tensor.body->op == ExprOp::kConst;
  std::string body = Printer{program, axes}.print(tensor.body, 0, false, typed);
  if (tensor.reduce != Reduce::kNone) {
    body =
        concat(reduction_name(tensor.reduce), "[", axis_list(tensor.reduce_axes), "](", body, ")");
  }
  return concat(tensor.role == Role::kOutput ? "out " : "", tensor.name, "[",
                axis_list(tensor.axes), "] = ", body);
}

}  // namespace

std::string print_number(Type type, double value) {
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  // f16 and bf16 values are f32 values, and its shortest text reads back equal in them too.
  std::to_chars_result end = type == Type::kF64
                                 ? std::to_chars(buffer, buffer + sizeof buffer, value)
                                 : std::to_chars(buffer, buffer + sizeof buffer,
                                                 static_cast<float>(value));
  return std::string(buffer, end.ptr);
}

std::string print_expr(const Expr& expr, const Program& program, const std::vector<Axis>& axes) {
  return Printer{program, axes}.print(expr, 0);
}

std::string print(const Program& program, const Tensor& tensor, const Expr& expr) {
  return print_expr(expr, program, all_axes(tensor));
}

std::string print(const Program& program) {
  std::string out = concat("op ", program.name, "() {\n");
  for (const Tensor& tensor : program.tensors) {
    out += concat("  ", definition(program, tensor), "\n");
  }
  return out + "}\n";
}

}  // namespace lw
