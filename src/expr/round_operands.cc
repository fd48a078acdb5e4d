#include "src/expr/round_operands.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/expr.h"

namespace lw {
namespace {

// The read that the factor is, perhaps padded; null: another expression.
const ExprNode* read_of(const Expr& factor) {
  const ExprNode& node = factor->op == ExprOp::kPad ? *factor->args[0] : *factor;
  return node.op == ExprOp::kRead ? &node : nullptr;
}

// What is summed up where anything is.
const Expr& chosen(const Expr& body) {
  const bool chooses = body->op == ExprOp::kSelect && is_zero(*body->args[2]);
  return chooses ? chosen(body->args[1]) : body;
}

// Whether another point along the axis means another element. At a quotient of the axis, as in
// grouped convolutions, those of a group share theirs.
bool is_moved_by(const Expr& expr, int axis, Visited& visited) {
  if (!visited.first(expr) || expr->op == ExprOp::kDiv) return false;
  if (expr->op == ExprOp::kAxis) return expr->index == axis;
  return std::any_of(expr->args.begin(), expr->args.end(),
                     [&](const Expr& arg) { return is_moved_by(arg, axis, visited); });
}

bool serves_several(const Tensor& tensor, const Expr& factor) {
  for (int a = 0; a < static_cast<int>(tensor.axes.size()); ++a) {
    Visited visited;
    if (tensor.axes[a].extent > 1 && !is_moved_by(factor, a, visited)) return true;
  }
  return false;
}

class OperandRounding {
 public:
  explicit OperandRounding(const Program& program) : before_(program) {
    after_.name = program.name;
  }

  Program run() {
    for (const Tensor& tensor : before_.tensors) {
      Tensor copy = tensor;
      if (has_operands_to_round(tensor)) {
        copy.body = product(tensor.body);
      } else if (tensor.body != nullptr) {
        copy.body = renumber_reads(tensor.body, position_);
      }
      position_.push_back(static_cast<int>(after_.tensors.size()));
      after_.tensors.push_back(std::move(copy));
    }
    return std::move(after_);
  }

 private:
  Expr product(const Expr& body) {
    if (body->op == ExprOp::kSelect) {
      return make_select(renumber_reads(body->args[0], position_), product(body->args[1]),
                         body->args[2]);
    }
    const Expr a = factor(body->args[0]);  // one after the other: each may add a tensor
    return make_binary(ExprOp::kMul, a, factor(body->args[1]));
  }

  // The factor as one of what its tensor is rounded to.
  Expr factor(const Expr& factor) {
    const ExprNode& read = *read_of(factor);
    std::vector<Expr> indices;
    for (const Expr& index : read.args) indices.push_back(renumber_reads(index, position_));
    Expr value = make_read(rounded(read.index), Type::kBF16, std::move(indices));
    if (factor->op == ExprOp::kPad) {
      const Expr fill = renumber_reads(factor->args[1], position_);
      value = make_pad(std::move(value), make_cast(Type::kBF16, fill));
    }
    return make_cast(Type::kF32, std::move(value));
  }

  // Where the tensor is rounded, which has the place of the next one if it is not there yet.
  int rounded(int tensor) {
    const auto [entry, is_new] = rounded_.emplace(tensor, static_cast<int>(after_.tensors.size()));
    if (is_new) after_.tensors.push_back(cast_of(before_.tensors[tensor], position_[tensor]));
    return entry->second;
  }

  Tensor cast_of(const Tensor& tensor, int position) const {
    Tensor cast;
    cast.name = unused(concat(tensor.name, "_bf16"));
    cast.type = Type::kBF16;
    cast.shape = tensor.shape;
    std::vector<Expr> indices;
    for (size_t d = 0; d < tensor.shape.size(); ++d) {
      cast.axes.push_back({unused(concat("a", d)), tensor.shape[d]});
      indices.push_back(make_axis(static_cast<int>(d)));
    }
    cast.body = make_cast(Type::kBF16, make_read(position, tensor.type, std::move(indices)));
    return cast;
  }

  // The name with as many underscores that no tensor has it.
  std::string unused(std::string name) const {
    const auto is_taken = [&](const Program& program) {
      return std::any_of(program.tensors.begin(), program.tensors.end(),
                         [&](const Tensor& tensor) { return tensor.name == name; });
    };
    while (is_taken(before_) || is_taken(after_)) name += "_";
    return name;
  }

  const Program& before_;
  Program after_;
  std::vector<int> position_;              // of each tensor before, of those that are there
  std::map<int, int> rounded_;             // where what a tensor before is rounded to stands
};

}  // namespace

bool has_operands_to_round(const Tensor& tensor) {
  if (tensor.reduce != Reduce::kSum || tensor.type != Type::kF32) return false;
  const Expr& body = chosen(tensor.body);
  return body->op == ExprOp::kMul && body->type == Type::kF32 &&
         std::all_of(body->args.begin(), body->args.end(), [&](const Expr& factor) {
           return read_of(factor) != nullptr && serves_several(tensor, factor);
         });
}

absl::StatusOr<Program> round_operands(const Program& program) {
  if (std::none_of(program.tensors.begin(), program.tensors.end(), has_operands_to_round)) {
    return program;
  }
  Program rounded = OperandRounding(program).run();
  RETURN_IF_ERROR(verify(rounded));
  return rounded;
}

}  // namespace lw
