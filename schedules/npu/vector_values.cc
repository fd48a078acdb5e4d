#include "schedules/npu/vector_values.h"

#include <algorithm>

#include "loopwright/program.h"
#include "schedules/targets/npu/machine.h"
#include "schedules/targets/npu/npu_target.h"
#include "src/base/message.h"

namespace lw {

int memory_of(Type type) {
  return type == Type::kI32 || type == Type::kF32 ? kNpuAcc : kNpuSpm;
}

bool has_type(Type type) {
  return type == Type::kI8 || type == Type::kI32 || type == Type::kBF16 || type == Type::kF32;
}

double number_of(const ExprNode& constant) {
  return is_float(constant.type) ? constant.number : static_cast<double>(constant.integer);
}

VectorValues::VectorValues(const Nest& nest, int stage)
    : nest_(nest),
      index_(stage),
      stage_(nest.stages[stage]),
      tensor_(nest.program->tensors[stage_.tensor]),
      config_(npu_config(*nest.target)) {
  for (size_t a = 0; a < tensor_.shape.size(); ++a) spatial_ |= has(static_cast<int>(a));
  for (size_t a = 0; a < stage_.axes.size(); ++a) all_ |= has(static_cast<int>(a));
  if (stage_.place == Place::kEpilogue) held_ = nest.stages[stage_.host].tensor;
  begin();
}

void VectorValues::begin() {
  code_ = VectorCode();
  code_.reduce = tensor_.reduce;
  operands_.clear();
  indices_.clear();
}

absl::Status VectorValues::refuse(const std::string& why) const {
  return infeasible(concat(stage_.name, " is nothing that the NPU computes: ", why));
}

int VectorValues::inlined(const ExprNode& read) const {
  for (const auto& [stage, body] : inlined_) {
    if (nest_.stages[stage].tensor == read.index) return stage;
  }
  return -1;
}

absl::Status VectorValues::find_reads(const Expr& body) {
  absl::Status status;
  const auto find = [&](const ExprNode& node) {
    if (!status.ok()) return;
    if (node.op == ExprOp::kPad && node.args[1]->op != ExprOp::kConst) {
      status = refuse(concat("what it pads ", name(*node.args[0]), " with is no constant"));
    }
    if (node.op != ExprOp::kRead || inlined(node) >= 0) return;
    if (!has_type(node.type)) {
      status = refuse(concat("it has i8, i32, bf16 and f32, and ", name(node), " is ",
                             type_name(node.type)));
      return;
    }
    absl::StatusOr<VectorRead> read = vector_read(nest_, index_, node);
    if (read.ok()) reads_.emplace(&node, *std::move(read));
    else status = refuse(std::string(read.status().message()));
  };
  visit(body, find);
  for (const auto& [stage, reduced] : inlined_) visit(reduced, find);
  return status;
}

std::string VectorValues::name(const ExprNode& read) const {
  return nest_.program->tensors[static_cast<size_t>(read.index)].name;
}

void VectorValues::choose_axes() {
  int last = -1;
  for (int a = static_cast<int>(tensor_.shape.size()); a-- > 0 && last < 0;) {
    if (has(a)) last = a;
  }
  const auto any_steps = [&](int axis, auto&& is) {
    return axis >= 0 && std::any_of(reads_.begin(), reads_.end(), [&](const auto& entry) {
             return is(entry.second.by_axis[static_cast<size_t>(axis)]);
           });
  };
  const auto contiguous = [&](int axis) {
    return any_steps(axis, [](int64_t step) { return step == 1; });
  };
  code_.vector_axis = last;
  const bool row_wise = code_.reduce == Reduce::kSum || code_.reduce == Reduce::kMax;
  if (row_wise && !contiguous(last)) {
    const int rank = static_cast<int>(tensor_.shape.size());
    for (int a = static_cast<int>(stage_.axes.size()); a-- > rank;) {
      if (!has(a) || !contiguous(a)) continue;
      code_.vector_axis = a;
      code_.by_rows = true;
      break;
    }
  }
  // No copy begins inside a vector.
  const auto leaves = [&](const VectorRead& read) {
    for (size_t d = 0; d < read.steps.size() && code_.vector_axis >= 0; ++d) {
      if (read.leaves[d] && read.steps[d][static_cast<size_t>(code_.vector_axis)] != 0) return true;
    }
    return false;
  };
  const bool left = std::any_of(reads_.begin(), reads_.end(),
                                [&](const auto& entry) { return leaves(entry.second); });
  if (left || (!moved_ && any_steps(code_.vector_axis, [](int64_t step) { return step > 1; }))) {
    code_.vector_axis = -1;
    code_.by_rows = false;
  }
  for (int a = 0; a < static_cast<int>(stage_.axes.size()); ++a) {
    if (has(a) && a != code_.vector_axis) code_.order.push_back(a);
  }
  if (code_.vector_axis >= 0) code_.order.push_back(code_.vector_axis);
}

VectorValues::Axes VectorValues::axes_of(int value) const {
  Axes axes = 0;
  for (int a = 0; a < static_cast<int>(stage_.axes.size()); ++a) {
    if (varies(code_.values[static_cast<size_t>(value)].tile, a)) axes |= Axes{1} << a;
  }
  return axes;
}

int VectorValues::add(VectorValue value) {
  code_.values.push_back(std::move(value));
  return static_cast<int>(code_.values.size()) - 1;
}

VectorTile VectorValues::tile_of(Type type, int memory, Axes axes) const {
  VectorTile tile = {type, memory, {}, true};
  for (const int a : code_.order) {
    if (!(axes >> a & 1) && a != code_.vector_axis) continue;
    tile.steps.emplace_back(stage_.axes.size());
    tile.steps.back()[static_cast<size_t>(a)] = axes >> a & 1;
  }
  if (code_.vector_axis < 0) tile.steps.emplace_back(stage_.axes.size());
  return tile;
}

int VectorValues::computed(Type type, Axes axes) {
  VectorValue value;
  value.tile = tile_of(type, memory_of(type), axes);
  return add(std::move(value));
}

int VectorValues::emit(VectorOp op, Type type, Axes axes) {
  op.dst = computed(type, axes);
  code_.ops.push_back(op);
  return op.dst;
}

int VectorValues::spread(int value, Axes axes) {
  return axes_of(value) == axes ? value : copied(value, axes);
}

int VectorValues::copied(int value, Axes axes) {
  VectorOp op;
  op.kind = VectorOp::Kind::kCopy;
  op.srcs[0] = value;
  return emit(op, type_of(value), axes);
}

int VectorValues::scalar(ExprOp op, double number, int value) {
  VectorOp result;
  result.kind = VectorOp::Kind::kScalar;
  result.expr_op = op;
  result.number = number;
  result.srcs[0] = value;
  return emit(result, type_of(value), axes_of(value));
}

int VectorValues::function(ExprOp op, int value) {
  VectorOp result;
  result.kind = VectorOp::Kind::kUnary;
  result.expr_op = op;
  result.srcs[0] = value;
  return emit(result, type_of(value), axes_of(value));
}

// A column cannot be the first operand of rows.
int VectorValues::combined(ExprOp op, int a, int b) {
  const Axes axes = axes_of(a) | axes_of(b);
  const int v = code_.vector_axis;
  const bool column = v >= 0 && (axes >> v & 1) && !(axes_of(a) >> v & 1);
  VectorOp result;
  result.expr_op = op;
  result.srcs[0] = column ? b : a;
  result.srcs[1] = column ? a : b;
  const int value = emit(result, type_of(a), axes);
  return column && op == ExprOp::kSub ? scalar(ExprOp::kMul, -1, value) : value;
}

int VectorValues::constant(Type type, double number) {
  VectorOp zero;
  zero.kind = VectorOp::Kind::kZero;
  const int value = emit(zero, type, 0);
  return number == 0 ? value : scalar(ExprOp::kAdd, number, value);
}

int VectorValues::indices(int axis) {
  for (const auto& [known, value] : indices_) {
    if (known == axis) return value;
  }
  VectorValue value;
  value.kind = VectorValue::Kind::kOperand;
  value.source_steps.resize(stage_.axes.size());
  value.source_steps[static_cast<size_t>(axis)] = 1;
  value.tile = {Type::kI32, kNpuAcc, {}, true};
  if (axis != code_.vector_axis) {
    value.tile.steps.push_back(value.source_steps);
    value.tile.steps.emplace_back(stage_.axes.size());
    value.source_strides = {1, 1};
  } else {
    value.tile.steps.push_back(value.source_steps);
    value.source_strides = {1};
  }
  code_.numbers = std::max(code_.numbers, stage_.axes[static_cast<size_t>(axis)].extent);
  indices_.emplace_back(axis, add(std::move(value)));
  return indices_.back().second;
}

int VectorValues::operand(const ExprNode& node, Type type, int memory) {
  for (const auto& [known, value] : operands_) {
    const VectorTile& tile = code_.values[static_cast<size_t>(value)].tile;
    if (known == &node && tile.type == type && tile.memory == memory) return value;
  }
  const bool padded = node.op == ExprOp::kPad;
  const ExprNode& from = padded ? *node.args[0] : node;
  const VectorRead& read = reads_.at(&from);
  const std::vector<int64_t>& shape =
      nest_.program->tensors[static_cast<size_t>(from.index)].shape;
  VectorValue value;
  value.kind = VectorValue::Kind::kOperand;
  value.tensor = from.index;
  value.source_begin = read.begin;
  value.source_steps = read.by_axis;
  value.tile = {type, memory, {}, !moved_};
  if (padded) value.number = number_of(*node.args[1]);
  // Along a dimension of the tensor, with all that moves it.
  const auto add_whole = [&](size_t d) {
    if (read.leaves[d]) {
      value.borders.push_back({static_cast<int>(value.tile.steps.size()), read.first[d], shape[d],
                               read.steps[d]});
    }
    value.tile.steps.push_back(read.steps[d]);
    value.source_strides.push_back(read.sizes[d]);
  };
  const int v = code_.vector_axis;
  const int64_t along = v < 0 ? 0 : read.by_axis[static_cast<size_t>(v)];
  std::vector<bool> done(stage_.axes.size());
  for (const int a : code_.order) {
    const bool moves = read.by_axis[static_cast<size_t>(a)] != 0;
    if (!moves || done[static_cast<size_t>(a)] || (a == v && along == 1)) continue;
    const int dim = window_of(read, a, v);
    if (dim < 0) {
      value.tile.steps.emplace_back(stage_.axes.size());
      value.tile.steps.back()[static_cast<size_t>(a)] = 1;
      value.source_strides.push_back(read.by_axis[static_cast<size_t>(a)]);
      continue;
    }
    add_whole(static_cast<size_t>(dim));
    for (size_t other = 0; other < done.size(); ++other) {
      if (read.steps[static_cast<size_t>(dim)][other] != 0) done[other] = true;
    }
  }
  for (size_t d = 0; d < read.steps.size(); ++d) {
    const bool stands = std::all_of(read.steps[d].begin(), read.steps[d].end(),
                                    [](int64_t step) { return step == 0; });
    if (stands && read.leaves[d]) add_whole(d);
  }
  value.tile.steps.emplace_back(stage_.axes.size());
  if (along == 1) value.tile.steps.back()[static_cast<size_t>(v)] = 1;
  value.source_strides.push_back(1);
  operands_.emplace_back(&node, add(std::move(value)));
  return operands_.back().second;
}

absl::Status VectorValues::check_held() const {
  const bool rows = code_.vector_axis + 1 == static_cast<int>(tensor_.shape.size()) &&
                    config_.acc.align % vector_padding(config_) == 0;
  return rows ? absl::OkStatus() : refuse("results are held otherwise than vectors want them");
}

int VectorValues::held(Type type) {
  VectorValue value;
  value.kind = VectorValue::Kind::kHeld;
  value.tile = {type, kNpuAcc, {}, true};
  for (int d = 0; d < static_cast<int>(tensor_.shape.size()); ++d) {
    value.tile.steps.emplace_back(stage_.axes.size());
    value.tile.steps.back()[static_cast<size_t>(d)] = has(d) != 0;
  }
  return add(std::move(value));
}

VectorValues::Axes VectorValues::axes_of(const ExprNode& read) const {
  Axes axes = 0;
  const VectorRead& found = reads_.at(&read);
  for (size_t a = 0; a < found.by_axis.size(); ++a) {
    if (found.by_axis[a] != 0) axes |= Axes{1} << a;
  }
  return axes;
}

}  // namespace lw
