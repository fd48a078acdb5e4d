#include "src/export/operation.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/bounds.h"

namespace lw {
namespace {

absl::Status refuse(const Stage& stage, std::string_view why) {
  return absl::FailedPreconditionError(concat(stage.name, ": ", why));
}

// The axes, and the value over them instead of the tensor's.
absl::Status put_on_axes(const Nest& nest, const Stage& stage, Operation* operation) {
  const Tensor& tensor = nest.program->tensors[stage.tensor];
  operation->axes = stage.axes;
  operation->value = effective_body(nest, operation->stage);
  for (size_t d = 0; d < tensor.axes.size(); ++d)
    operation->result_axes.push_back(static_cast<int>(d));
  if (stage.factored_axis >= 0) {
    NestAxis& whole = operation->axes[stage.factored_axis];
    const int64_t tile = stage.factored_tile;
    if (whole.extent % tile != 0)
      return refuse(stage, "its partial sums are not of equally many terms");
    std::vector<Expr> values(operation->axes.size());
    values[stage.factored_axis] = make_binary(
        ExprOp::kAdd,
        make_binary(ExprOp::kMul, make_axis(0), make_int(Type::kI64, tile)),
        make_axis(stage.factored_axis));
    operation->value = substitute(operation->value, values);
    whole.extent = tile;
  }
  if (stage.axis_value.empty()) return absl::OkStatus();
  if (has_fused_axes(stage)) return refuse(stage, "whole axes of it were fused");
  for (size_t d = 0; d < tensor.axes.size(); ++d) {
    const Expr& at = stage.axis_value[d];
    if (at->op != ExprOp::kAxis) return refuse(stage, "an axis of it was cut into phases");
    operation->result_axes[d] = at->index;
  }
  operation->value = substitute(operation->value, stage.axis_value);
  return absl::OkStatus();
}

// Whether the indices are sums of multiples of axes, none negative; then the operand without `fill`.
bool is_linear(const Operation& operation, const Tensor& tensor, const ExprNode& read,
               Operand* operand) {
  operand->tensor = read.index;
  for (size_t d = 0; d < read.args.size(); ++d) {
    const Linear form = linear_form(read.args[d]);
    std::vector<int64_t> factors(operation.axes.size());
    int64_t last = form.constant;
    for (const Linear::Term& term : form.terms) {
      if (term.atom->op != ExprOp::kAxis || term.factor < 0) return false;
      factors[term.atom->index] = term.factor;
      last += term.factor * (operation.axes[term.atom->index].extent - 1);
    }
    // What never meets the tensor has no inside to copy.
    if (last < 0 || form.constant >= tensor.shape[d]) return false;
    operand->factors.push_back(std::move(factors));
    operand->low.push_back(-form.constant);
    operand->high.push_back(last - (tensor.shape[d] - 1));
    operand->shape.push_back(last - form.constant + 1);
  }
  return true;
}

class Finder {
 public:
  Finder(const Nest& nest, Operation* operation) : nest_(nest), operation_(operation) {}

  void find(const Expr& e) {
    if (!visited_.first(e)) return;
    if (e->op == ExprOp::kPad) {
      if (is_const(e->args[1]) && take(*e, *e->args[0], e->args[1])) return;
      operation_->gathers = true;          // the indices alone decide what it is
      for (const Expr& index : e->args[0]->args) find(index);
      return find(e->args[1]);
    }
    if (e->op == ExprOp::kRead) {
      if (take(*e, *e, nullptr)) return;
      operation_->gathers = true;
    }
    for (const Expr& arg : e->args) find(arg);
  }

 private:
  bool take(const ExprNode& node, const ExprNode& read, const Expr& fill) {
    Operand operand;
    const Tensor& tensor = nest_.program->tensors[read.index];
    if (!is_linear(*operation_, tensor, read, &operand)) return false;
    if (has_margin(operand)) operand.fill = fill;
    std::vector<Operand>& all = operation_->operands;
    const auto known = std::find(all.begin(), all.end(), operand);
    operation_->operand_of[&node] = static_cast<int>(known - all.begin());
    if (known == all.end()) all.push_back(std::move(operand));
    return true;
  }

  const Nest& nest_;
  Operation* operation_;
  Visited visited_;
};

// An axis is an index of its own where a dimension's only factor is 1, and its.
void find_hidden_axes(Operation* operation) {
  std::vector<bool> shown(operation->axes.size());
  for (int axis : operation->result_axes) shown[axis] = true;
  for (const Operand& operand : operation->operands) {
    for (const std::vector<int64_t>& factors : operand.factors) {
      const auto one = std::find_if(factors.begin(), factors.end(), [](int64_t f) { return f; });
      if (one == factors.end() || *one != 1) continue;
      const auto another = std::find_if(one + 1, factors.end(), [](int64_t f) { return f; });
      if (another == factors.end()) shown[one - factors.begin()] = true;
    }
  }
  for (size_t a = 0; a < shown.size(); ++a) {
    if (!shown[a]) operation->hidden_axes.push_back(static_cast<int>(a));
  }
}

}  // namespace

bool has_margin(const Operand& operand) {
  const auto is_added = [](int64_t elements) { return elements > 0; };
  return std::any_of(operand.low.begin(), operand.low.end(), is_added) ||
         std::any_of(operand.high.begin(), operand.high.end(), is_added);
}

std::vector<Slab> margin_slabs(const Operand& operand) {
  std::vector<Slab> slabs;
  const auto add = [&](size_t dimension, int64_t offset, int64_t elements) {
    if (elements <= 0) return;
    slabs.push_back({std::vector<int64_t>(operand.shape.size()), operand.shape});
    slabs.back().offsets[dimension] = offset;
    slabs.back().shape[dimension] = elements;
  };
  for (size_t d = 0; d < operand.shape.size(); ++d) {
    add(d, 0, operand.low[d]);
    add(d, operand.shape[d] - operand.high[d], operand.high[d]);
  }
  return slabs;
}

Slab inside_slab(const Operand& operand) {
  Slab slab;
  for (size_t d = 0; d < operand.shape.size(); ++d) {
    const int64_t low = std::max<int64_t>(0, operand.low[d]);
    slab.offsets.push_back(low);
    slab.shape.push_back(operand.shape[d] - low - std::max<int64_t>(0, operand.high[d]));
  }
  return slab;
}

bool Operand::operator==(const Operand& other) const {
  const bool same_fill = fill == nullptr ? other.fill == nullptr
                                         : other.fill != nullptr && same(fill, other.fill);
  return same_fill && tensor == other.tensor && factors == other.factors && low == other.low &&
         high == other.high;
}

absl::StatusOr<Operation> make_operation(const Nest& nest, int stage) {
  Operation operation;
  operation.stage = stage;
  RETURN_IF_ERROR(put_on_axes(nest, nest.stages[stage], &operation));
  Finder(nest, &operation).find(operation.value);
  find_hidden_axes(&operation);
  const Tensor& tensor = nest.program->tensors[nest.stages[stage].tensor];
  operation.copies_out = tensor.reduce != Reduce::kNone && !tensor.shape.empty() &&
                         nest.stages[stage].epilogue.empty();
  return operation;
}

}  // namespace lw
