#include "src/export/operation.h"

#include <algorithm>
#include <map>
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

// Of a reduction whose last loop is of vectors: how many points of that axis have a sum of their own.
// All of the tile's, or as many vectors as divide it and the axis. 0: none have.
int64_t summed_lanes(const Nest& nest, const Stage& stage, int axis) {
  const int s = static_cast<int>(&stage - nest.stages.data());
  const int64_t tile = inner_extents(stage, tile_begin(stage))[axis], vector = stage_lanes(nest, s);
  std::vector<int64_t> candidates = {tile};
  for (int64_t vectors : {8, 4, 2, 1}) candidates.push_back(vectors * vector);
  for (int64_t lanes : candidates) {
    if (vector > 1 && lanes % vector == 0 && tile % lanes == 0 &&
        cuts_at_blocks(stage, axis, lanes))
      return lanes;
  }
  return 0;
}

// The reduction in lanes; -1: there is none.
int axis_in_lanes(const Stage& stage) {
  if (stage.loops.empty() || stage.loops.back().kind != LoopKind::kVector) return -1;
  const int axis = stage.loops.back().parts.back().axis;
  return stage.axes[axis].reduction && stage.factored_axis < 0 ? axis : -1;
}

void cut_axes(const Nest& nest, const Stage& stage, Operation* operation) {
  std::vector<std::vector<int64_t>> blocks = axis_blocks(nest, operation->stage);
  const int in_lanes = axis_in_lanes(stage);
  if (in_lanes >= 0 && blocks[in_lanes].empty()) {
    const int64_t lanes = summed_lanes(nest, stage, in_lanes);
    if (lanes > 0) blocks[in_lanes] = {lanes};
    operation->lanes = lanes > 0 ? 0 : -1;
  }
  for (size_t a = 0; a < stage.axes.size(); ++a) {
    CutAxis cut{{}, blocks[a]};
    cut.units.push_back(1);
    NestAxis part = stage.axes[a];
    int64_t left = part.extent;
    for (int64_t unit : cut.units) {
      cut.axes.push_back(static_cast<int>(operation->axes.size()));
      part.extent = left / unit;
      operation->axes.push_back(part);
      left = unit;
    }
    operation->cuts.push_back(std::move(cut));
  }
  if (operation->lanes < 0) return;
  operation->lanes = operation->cuts[in_lanes].axes.back();
  operation->axes[operation->lanes].reduction = false;
}

// A value over the stage's axes becomes one over the operation's.
class OnCutAxes {
 public:
  explicit OnCutAxes(const std::vector<CutAxis>& cuts) : cuts_(cuts) {}

  Expr rewrite(const Expr& e) {
    const auto [known, is_new] = known_.try_emplace(e.get());
    if (!is_new) return known->second;
    Expr value = rewrite_node(e);
    return known_[e.get()] = std::move(value);
  }

 private:
  Expr rewrite_node(const Expr& e) {
    if (e->op == ExprOp::kAxis) return sum(cuts_[e->index], 0, cuts_[e->index].axes.size(), 1);
    if (is_part_of_axis(*e)) {
      const CutAxis& cut = cuts_[e->args[0]->index];
      const int64_t block = e->args[1]->integer;
      const auto unit = std::find(cut.units.begin(), cut.units.end(), block);
      const size_t inside = static_cast<size_t>(unit - cut.units.begin()) + 1;
      if (unit != cut.units.end() && e->op == ExprOp::kDiv) return sum(cut, 0, inside, block);
      if (unit != cut.units.end()) return sum(cut, inside, cut.axes.size(), 1);
    }
    if (e->args.empty()) return e;
    std::vector<Expr> args;
    for (const Expr& arg : e->args) args.push_back(rewrite(arg));
    return with_args(e, std::move(args));
  }

  // Of some of its axes, in steps of so many points.
  static Expr sum(const CutAxis& cut, size_t begin, size_t end, int64_t step) {
    Expr all;
    for (size_t n = begin; n < end; ++n) {
      Expr term = make_axis(cut.axes[n]);
      if (cut.units[n] != step)
        term = make_binary(ExprOp::kMul, term, make_int(Type::kI64, cut.units[n] / step));
      all = all == nullptr ? term : make_binary(ExprOp::kAdd, all, term);
    }
    return all;
  }

  const std::vector<CutAxis>& cuts_;
  std::map<const ExprNode*, Expr> known_;
};

// The axes, and the value over them instead of the tensor's.
absl::Status put_on_axes(const Nest& nest, const Stage& stage, Operation* operation) {
  const Tensor& tensor = nest.program->tensors[stage.tensor];
  operation->value = effective_body(nest, operation->stage);
  std::vector<int> own_axes;               // the stage's, by dimension
  for (size_t d = 0; d < tensor.axes.size(); ++d) own_axes.push_back(static_cast<int>(d));
  if (!stage.axis_value.empty()) {
    for (size_t d = 0; d < tensor.axes.size(); ++d) {
      const Expr& at = stage.axis_value[d];
      if (at->op != ExprOp::kAxis) {
        return refuse(stage, has_fused_axes(stage) ? "whole axes of its result were fused"
                                                   : "an axis of it was cut into phases");
      }
      own_axes[d] = at->index;
    }
    operation->value = substitute(operation->value, stage.axis_value);
  }
  cut_axes(nest, stage, operation);
  operation->value = OnCutAxes(operation->cuts).rewrite(operation->value);
  if (stage.factored_axis >= 0) {          // no axis of these is cut
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
  for (size_t d = 0; d < tensor.axes.size(); ++d) {
    const CutAxis& cut = operation->cuts[own_axes[d]];
    int64_t left = tensor.shape[d];
    for (size_t n = 0; n < cut.axes.size(); ++n) {
      operation->result_axes.push_back(cut.axes[n]);
      operation->shape.push_back(left / cut.units[n]);
      left = cut.units[n];
    }
  }
  return absl::OkStatus();
}

// Whether one index runs through dimension `d` and the next, row by row: its quotient, then its
// remainder.
bool runs_through(const Tensor& tensor, const ExprNode& read, size_t d) {
  if (d + 1 >= read.args.size()) return false;
  const ExprNode &row = *read.args[d], &column = *read.args[d + 1];
  const auto divides = [&](const ExprNode& e) {
    return e.type == Type::kI64 && is_const(e.args[1]) && e.args[1]->integer == tensor.shape[d + 1];
  };
  return row.op == ExprOp::kDiv && column.op == ExprOp::kMod && divides(row) && divides(column) &&
         same(row.args[0], column.args[0]);
}

// Whether the indices are sums of multiples of axes, none negative; then the operand without `fill`.
bool is_linear(const Operation& operation, const Tensor& tensor, const ExprNode& read,
               Operand* operand) {
  operand->tensor = read.index;
  for (size_t d = 0; d < read.args.size(); ++d) {
    const bool merges = runs_through(tensor, read, d);
    const Expr& index = merges ? read.args[d]->args[0] : read.args[d];
    operand->from.push_back(tensor.shape[d] * (merges ? tensor.shape[d + 1] : 1));
    d += merges;
    const int64_t extent = operand->from.back();
    const Linear form = linear_form(index);
    std::vector<int64_t> factors(operation.axes.size());
    int64_t last = form.constant;
    for (const Linear::Term& term : form.terms) {
      if (term.atom->op != ExprOp::kAxis || term.factor < 0) return false;
      factors[term.atom->index] = term.factor;
      last += term.factor * (operation.axes[term.atom->index].extent - 1);
    }
    // What never meets the tensor has no inside to copy.
    if (last < 0 || form.constant >= extent) return false;
    operand->factors.push_back(std::move(factors));
    operand->low.push_back(-form.constant);
    operand->high.push_back(last - (extent - 1));
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
    const bool is_merged = operand.from.size() < tensor.shape.size();
    if (!is_merged && !take_copy(&operand)) take_blocks(&operand);
    std::vector<Operand>& all = operation_->operands;
    const auto known = std::find(all.begin(), all.end(), operand);
    operation_->operand_of[&node] = static_cast<int>(known - all.begin());
    if (known == all.end()) all.push_back(std::move(operand));
    return true;
  }

  // Reads the copy that the schedule makes for it, if there is one.
  bool take_copy(Operand* operand) {
    for (Packing& packing : operation_->packings) {
      if (packing.tensor != operand->tensor || !is_made(packing)) continue;
      const bool in_rows = packing.block == 0;
      if (in_rows && packing.depth == 0 && has_margin(*operand)) {
        packing.fidelity = {Grade::kApproximate, "all of it is copied with its margins"};
        return false;
      }
      if (in_rows && packing.fidelity.grade != Grade::kExact) {
        packing.fidelity = {Grade::kLost, "what an iteration reads is read where it lies"};
        return false;
      }
      if (in_rows && packing.depth > 0) {
        if (is_read(packing)) {
          packing.fidelity = {Grade::kApproximate, "one of its reads is served, others are not"};
          return false;
        }
        packing.shape = operand->shape;    // with its margins
      } else if (!is_whole(*operand)) {
        packing.fidelity = {Grade::kLost, "it is not all that is read"};
        return false;
      }
      operand->copy = packing.copy;
      if (in_rows) return true;
      const CutAxis& cut = operation_->cuts[packing.axis];
      operand->factors.erase(operand->factors.begin() + packing.dim);
      std::vector<int64_t> blocks(operation_->axes.size()), points = blocks;
      for (size_t n = 0; n < cut.axes.size(); ++n) {
        if (cut.units[n] >= packing.block) blocks[cut.axes[n]] = cut.units[n] / packing.block;
        else points[cut.axes[n]] = cut.units[n];
      }
      operand->factors.insert(operand->factors.begin(), std::move(blocks));
      operand->factors.push_back(std::move(points));
      operand->shape = packing.shape;
      return true;
    }
    return false;
  }

  // Whether another operand reads it already.
  bool is_read(const Packing& packing) const {
    const auto is_it = [&](const Operand& operand) { return operand.copy == packing.copy; };
    const std::vector<Operand>& all = operation_->operands;
    return std::any_of(all.begin(), all.end(), is_it);
  }

  // Reads a result as its operation makes it, its dimensions cut, where this one's are cut alike.
  void take_blocks(Operand* operand) {
    const int source = stage_of_tensor(nest_, operand->tensor);
    if (source < 0 || !is_whole(*operand)) return;
    const std::vector<std::vector<int64_t>> blocks = axis_blocks(nest_, source);
    if (blocks.size() < operand->shape.size()) return;  // its axes were fused
    std::vector<std::vector<int64_t>> factors;
    std::vector<int64_t> shape;
    for (size_t d = 0; d < operand->shape.size(); ++d) {
      const CutAxis* cut = blocks[d].empty() ? nullptr : cut_of(operand->factors[d], blocks[d]);
      if (!blocks[d].empty() && cut == nullptr) return;
      int64_t left = operand->shape[d];
      for (size_t n = 0; n < blocks[d].size(); ++n) {
        factors.push_back(alone(cut->axes[n]));
        shape.push_back(left / blocks[d][n]);
        left = blocks[d][n];
      }
      factors.push_back(cut == nullptr ? operand->factors[d] : alone(cut->axes.back()));
      shape.push_back(left);
    }
    if (shape.size() == operand->shape.size()) return;
    operand->in_blocks = true;
    operand->factors = std::move(factors);
    operand->shape = std::move(shape);
  }

  static bool is_whole(const Operand& operand) {
    const auto is_none = [](int64_t elements) { return elements == 0; };
    return std::all_of(operand.low.begin(), operand.low.end(), is_none) &&
           std::all_of(operand.high.begin(), operand.high.end(), is_none);
  }

  std::vector<int64_t> alone(int axis) const {
    std::vector<int64_t> factors(operation_->axes.size());
    factors[axis] = 1;
    return factors;
  }

  // The axis cut into such blocks that alone is the index; null: none is.
  const CutAxis* cut_of(const std::vector<int64_t>& index,
                        const std::vector<int64_t>& blocks) const {
    for (const CutAxis& cut : operation_->cuts) {
      std::vector<int64_t> factors(operation_->axes.size());
      for (size_t n = 0; n < cut.axes.size(); ++n) factors[cut.axes[n]] = cut.units[n];
      if (factors == index && std::equal(blocks.begin(), blocks.end(), cut.units.begin(),
                                         cut.units.end() - 1))
        return &cut;
    }
    return nullptr;
  }

  const Nest& nest_;
  Operation* operation_;
  Visited visited_;
};

// An axis is an index of its own where a dimension's only factor is 1, and its.
void find_hidden_axes(Operation* operation) {
  std::vector<bool> shown(operation->axes.size());
  for (int axis : operation->result_axes) shown[axis] = true;
  if (operation->lanes >= 0) shown[operation->lanes] = true;
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
  return same_fill && tensor == other.tensor && copy == other.copy &&
         in_blocks == other.in_blocks && factors == other.factors && low == other.low &&
         high == other.high;
}

absl::StatusOr<Operation> make_operation(const Nest& nest, int stage) {
  Operation operation;
  operation.stage = stage;
  operation.packings = packings_of(nest, stage);
  RETURN_IF_ERROR(put_on_axes(nest, nest.stages[stage], &operation));
  Finder(nest, &operation).find(operation.value);
  find_hidden_axes(&operation);
  const Tensor& tensor = nest.program->tensors[nest.stages[stage].tensor];
  operation.copies_out = tensor.reduce != Reduce::kNone && !tensor.shape.empty() &&
                         nest.stages[stage].epilogue.empty();
  return operation;
}

std::vector<const Packing*> packings_read(const Operation& operation) {
  std::vector<const Packing*> read;
  for (const Packing& packing : operation.packings) {
    const auto is_it = [&](const Operand& operand) { return operand.copy == packing.copy; };
    if (std::any_of(operation.operands.begin(), operation.operands.end(), is_it))
      read.push_back(&packing);
  }
  return read;
}

std::vector<const Packing*> made_once(const std::vector<Operation>& operations) {
  std::vector<const Packing*> once;
  for (const Operation& operation : operations) {
    for (const Packing* packing : packings_read(operation)) {
      if (packing->once) once.push_back(packing);
    }
  }
  return once;
}

}  // namespace lw
