// The canonical text and its hash, the workload id: what two spellings of one workload share.
//
// Tensors are t0, t1, ... in the order inputs, outputs, temporaries; axes a0, a1, ... and r0, ...
// in order of their tensor. Indices are written as sorted linear forms, so `y * 2 + r - 1` and `r +
// 2 * y - 1` agree; operands of commutative operators are sorted by their text, which has no names
// in it; a > b is written b < a.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "src/base/hash.h"
#include "src/base/message.h"
#include "src/expr/bounds.h"
#include "src/expr/language/syntax.h"

namespace lw {
namespace {

constexpr int kLanguageVersion = 1;        // of the semantics: changing it changes every id

struct Canonical {
  const std::vector<int>& number;          // of tensors
  size_t spatial;                          // axes of the tensor at hand

  std::string axis(int index) const {
    const size_t i = static_cast<size_t>(index);
    return i < spatial ? concat("a", i) : concat("r", i - spatial);
  }

  std::string index(const Expr& e) const {
    Linear form = linear_form(e);
    std::vector<std::string> terms;
    for (const Linear::Term& term : form.terms) {
      const std::string atom = node(*term.atom);
      terms.push_back(term.factor == 1 ? atom : concat(atom, "*", term.factor));
    }
    std::sort(terms.begin(), terms.end());
    if (form.constant != 0 || terms.empty()) terms.push_back(std::to_string(form.constant));
    std::string out;
    for (const std::string& term : terms) out += concat(out.empty() ? "" : "+", term);
    return out;
  }

  std::string text(const Expr& e) const { return e->type == Type::kI64 ? index(e) : node(*e); }

  std::string node(const ExprNode& e) const {
    switch (e.op) {
      case ExprOp::kAxis: return axis(e.index);
      case ExprOp::kConst:
        if (!is_float(e.type)) return concat(type_name(e.type), ":", e.integer);
        return concat(type_name(e.type), ":", absl::StrFormat("%.17g", e.number));
      default: break;
    }
    std::vector<std::string> args;
    for (const Expr& arg : e.args) args.push_back(text(arg));
    ExprOp op = e.op;
    if (op == ExprOp::kGt || op == ExprOp::kGe) {
      op = op == ExprOp::kGt ? ExprOp::kLt : ExprOp::kLe;
      std::swap(args[0], args[1]);
    }
    if (is_commutative(op)) std::sort(args.begin(), args.end());
    std::string out = concat("(", op_name(op));
    if (op == ExprOp::kCast) out += concat(" ", type_name(e.type));
    if (op == ExprOp::kRead) out += concat(" t", number[static_cast<size_t>(e.index)]);
    for (const std::string& arg : args) out += concat(" ", arg);
    return out + ")";
  }
};

std::string extents(const std::vector<Axis>& axes) {
  std::string out;
  for (const Axis& axis : axes) out += concat(out.empty() ? "" : ",", axis.extent);
  return concat("[", out, "]");
}

}  // namespace

std::string canonical_text(const Program& program) {
  std::vector<int> order = arguments(program);
  for (size_t i = 0; i < program.tensors.size(); ++i) {
    if (program.tensors[i].role == Role::kTemp) order.push_back(static_cast<int>(i));
  }
  std::vector<int> number(program.tensors.size());
  for (size_t i = 0; i < order.size(); ++i)
    number[static_cast<size_t>(order[i])] = static_cast<int>(i);

  std::string out = concat("loopwright expression ", kLanguageVersion, "\n");
  for (size_t i = 0; i < order.size(); ++i) {
    const Tensor& tensor = program.tensors[static_cast<size_t>(order[i])];
    constexpr const char* kRoles[] = {"in", "temp", "out"};
    out += concat("t", i, " ", kRoles[static_cast<int>(tensor.role)], " ", type_name(tensor.type),
                  "[");
    for (size_t d = 0; d < tensor.shape.size(); ++d) out += concat(d ? "," : "", tensor.shape[d]);
    out += tensor.is_const ? "] const" : "]";
    if (tensor.body) {
      out += " = ";
      if (tensor.reduce != Reduce::kNone) {
        out += concat(reduction_name(tensor.reduce), extents(tensor.reduce_axes), " ");
      }
      out += Canonical{number, tensor.axes.size()}.text(tensor.body);
    }
    out += "\n";
  }
  return out;
}

std::string workload_id(const Program& program) { return sha256(canonical_text(program)); }

}  // namespace lw
