// From a stage's body to the vector engine's operations.
#include <algorithm>
#include <optional>
#include <unordered_map>

#include "schedules/access.h"
#include "schedules/npu/requantisation.h"
#include "schedules/npu/vector.h"
#include "schedules/npu/vector_reads.h"
#include "schedules/targets/npu/machine.h"
#include "schedules/targets/npu/npu_target.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/expr.h"

namespace lw {
namespace {

using Op = VectorOp::Kind;
using Axes = uint64_t;                     // a set of them

int place_of_type(Type type) {
  return type == Type::kI32 || type == Type::kF32 ? kNpuAcc : kNpuSpm;
}

class Compiler {
 public:
  Compiler(const Nest& nest, int stage)
      : nest_(nest),
        index_(stage),
        stage_(nest.stages[stage]),
        tensor_(nest.program->tensors[stage_.tensor]),
        config_(npu_config(*nest.target)) {}

  absl::StatusOr<VectorCode> run() {
    RETURN_IF_ERROR(check());
    const Expr body = effective_body(nest_, index_);
    RETURN_IF_ERROR(find_reads(body));
    for (size_t a = 0; a < tensor_.shape.size(); ++a) spatial_ |= has(static_cast<int>(a));
    for (size_t a = 0; a < stage_.axes.size(); ++a) all_ |= has(static_cast<int>(a));
    code_.reduce = tensor_.reduce;
    moved_ = body->op == ExprOp::kRead && code_.reduce == Reduce::kNone;
    choose_axes();
    RETURN_IF_ERROR(code_.reduce == Reduce::kNone ? compile_map(body) : compile_reduction(body));
    find_places(code_);
    return std::move(code_);
  }

 private:
  Axes has(int axis) const {
    return stage_.axes[static_cast<size_t>(axis)].extent > 1 ? Axes{1} << axis : 0;
  }
  absl::Status refuse(const std::string& why) const {
    return infeasible(concat(stage_.name, " is nothing that the NPU computes: ", why));
  }
  absl::Status check() const {
    if (stage_.copy_of >= 0 || stage_.axes.size() > 60) return refuse("it has too many axes");
    if (!stage_.axis_value.empty() || stage_.factored_axis >= 0) {
      return refuse("its axes are not those of its tensor");
    }
    const Type type = tensor_.type;
    const bool known = type == Type::kI8 || type == Type::kI32 || type == Type::kBF16 ||
                       type == Type::kF32;
    return known ? absl::OkStatus()
                 : refuse(concat("it has i8, i32, bf16 and f32, not ", type_name(type)));
  }

  // ---------------------------------------------------------------------------- reads

  absl::Status find_reads(const Expr& body) {
    absl::Status status;
    visit(body, [&](const ExprNode& node) {
      if (!status.ok()) return;
      if (node.op == ExprOp::kPad) {
        status = refuse(concat("its vector engine reads no padded ", name(*node.args[0])));
      }
      if (node.op != ExprOp::kRead) return;
      absl::StatusOr<VectorRead> read = vector_read(nest_, index_, node);
      if (read.ok()) reads_.emplace(&node, *std::move(read));
      else status = refuse(std::string(read.status().message()));
    });
    return status;
  }
  std::string name(const ExprNode& read) const {
    return nest_.program->tensors[static_cast<size_t>(read.index)].name;
  }

  // The vectors' axis: the result's last if operands are contiguous along it, or, of a reduction,
  // the one along which they are. None where one that varies along it is not: all are columns then.
  void choose_axes() {
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
    if (code_.reduce != Reduce::kNone && !contiguous(last)) {
      for (int a = static_cast<int>(stage_.axes.size()); a-- > static_cast<int>(tensor_.shape.size());) {
        if (!has(a) || !contiguous(a)) continue;
        code_.vector_axis = a;
        code_.by_rows = true;
        break;
      }
    }
    if (!moved_ && any_steps(code_.vector_axis, [](int64_t step) { return step > 1; })) {
      code_.vector_axis = -1;
      code_.by_rows = false;
    }
    for (int a = 0; a < static_cast<int>(stage_.axes.size()); ++a) {
      if (has(a) && a != code_.vector_axis) code_.order.push_back(a);
    }
    if (code_.vector_axis >= 0) code_.order.push_back(code_.vector_axis);
  }

  // ---------------------------------------------------------------------------- values

  Axes axes_of(int value) const {
    Axes axes = 0;
    for (int a = 0; a < static_cast<int>(stage_.axes.size()); ++a) {
      if (varies(code_.values[static_cast<size_t>(value)].tile, a)) axes |= Axes{1} << a;
    }
    return axes;
  }
  Type type_of(int value) const { return code_.values[static_cast<size_t>(value)].tile.type; }
  int add(VectorValue value) {
    code_.values.push_back(std::move(value));
    return static_cast<int>(code_.values.size()) - 1;
  }

  // A dimension for each axis; the last one is the vectors', which may not vary.
  VectorTile tile_of(Type type, int memory, Axes axes) const {
    VectorTile tile = {type, memory, {}, true};
    for (const int a : code_.order) {
      if (!(axes >> a & 1) && a != code_.vector_axis) continue;
      tile.steps.emplace_back(stage_.axes.size());
      tile.steps.back()[static_cast<size_t>(a)] = axes >> a & 1;
    }
    if (code_.vector_axis < 0) tile.steps.emplace_back(stage_.axes.size());
    return tile;
  }
  int computed(Type type, Axes axes) {
    VectorValue value;
    value.tile = tile_of(type, place_of_type(type), axes);
    return add(std::move(value));
  }
  int emit(VectorOp op, Type type, Axes axes) {
    op.dst = computed(type, axes);
    code_.ops.push_back(op);
    return op.dst;
  }
  // The value along all of these axes.
  int spread(int value, Axes axes) {
    if (axes_of(value) == axes) return value;
    VectorOp op;
    op.kind = Op::kCopy;
    op.srcs[0] = value;
    return emit(op, type_of(value), axes);
  }

  // A tile of what is read, in `memory` as `type`.
  int operand(const ExprNode& node, Type type, int memory) {
    for (const auto& [known, value] : operands_) {
      const VectorTile& tile = code_.values[static_cast<size_t>(value)].tile;
      if (known == &node && tile.type == type && tile.memory == memory) return value;
    }
    const VectorRead& read = reads_.at(&node);
    VectorValue value;
    value.kind = VectorValue::Kind::kOperand;
    value.tensor = node.index;
    value.source_begin = read.begin;
    value.source_steps = read.by_axis;
    value.tile = {type, memory, {}, !moved_};
    const int v = code_.vector_axis;
    const int64_t along = v < 0 ? 0 : read.by_axis[static_cast<size_t>(v)];
    std::vector<bool> done(stage_.axes.size());
    for (const int a : code_.order) {
      const bool moves = read.by_axis[static_cast<size_t>(a)] != 0;
      if (!moves || done[static_cast<size_t>(a)] || (a == v && along == 1)) continue;
      const int dim = window_of(read, a, v);
      value.tile.steps.emplace_back(stage_.axes.size());
      if (dim < 0) {
        value.tile.steps.back()[static_cast<size_t>(a)] = 1;
        value.source_strides.push_back(read.by_axis[static_cast<size_t>(a)]);
        continue;
      }
      value.tile.steps.back() = read.steps[static_cast<size_t>(dim)];
      value.source_strides.push_back(read.sizes[static_cast<size_t>(dim)]);
      for (size_t other = 0; other < done.size(); ++other) {
        if (read.steps[static_cast<size_t>(dim)][other] != 0) done[other] = true;
      }
    }
    value.tile.steps.emplace_back(stage_.axes.size());
    if (along == 1) value.tile.steps.back()[static_cast<size_t>(v)] = 1;
    value.source_strides.push_back(1);
    operands_.emplace_back(&node, add(std::move(value)));
    return operands_.back().second;
  }

  // ---------------------------------------------------------------------------- stages

  absl::Status compile_map(const Expr& body) {
    if (moved_) {
      code_.body = operand(*body, body->type, kNpuSpm);
      if (axes_of(code_.body) == spatial_) {
        return finish(code_.body);
      }
      moved_ = false;                      // it is broadcast
      code_.values.clear();
      operands_.clear();
    }
    if (tensor_.type == Type::kI8) {
      if (const std::optional<Requantisation> found = requantisation(body)) {
        ASSIGN_OR_RETURN(code_.body, requantise(*found));
        return finish(code_.body);
      }
    }
    Expr value = body;
    while (value->op == ExprOp::kCast && value->type == Type::kBF16 &&
           value->args[0]->type == Type::kF32) {
      value = value->args[0];              // which the store rounds
    }
    ASSIGN_OR_RETURN(code_.body, value_of(value));
    code_.body = spread(code_.body, spatial_);
    return finish(code_.body);
  }

  absl::Status finish(int value) {
    code_.result = code_.stored = value;
    if (code_.reduce == Reduce::kNone) code_.rows = code_.partial = value;
    if (tensor_.type == Type::kBF16 && type_of(value) == Type::kF32) {
      VectorValue narrow;
      narrow.tile = tile_of(Type::kBF16, kNpuSpm, spatial_);
      code_.stored = add(std::move(narrow));
    }
    return absl::OkStatus();
  }

  absl::Status compile_reduction(const Expr& body) {
    RETURN_IF_ERROR(check_reduction());
    ASSIGN_OR_RETURN(int value, value_of(body));
    const Axes reduced = all_ & ~spatial_;
    value = spread(value, axes_of(value) | spatial_ | reduced);
    code_.body = code_.rows = value;
    const Type type = type_of(value);
    const Axes rows = code_.by_rows ? Axes{1} << code_.vector_axis : 0;
    if (code_.by_rows && (reduced & ~rows) != 0) code_.rows = computed(type, spatial_ | rows);
    code_.result = computed(type, spatial_);
    code_.partial = code_.by_rows ? computed(type, spatial_) : code_.rows;
    return finish(code_.result);
  }

  absl::Status check_reduction() const {
    const bool sum = code_.reduce == Reduce::kSum, max = code_.reduce == Reduce::kMax;
    if (code_.by_rows && !sum && !max) {
      return refuse("of rows it reduces sums and maxima alone");
    }
    // Each operand serves several results: what an array is for.
    int reused = 0, reads = 0;
    for (const auto& [node, read] : reads_) {
      bool varied = false, unmoved = false;
      for (size_t a = 0; a < stage_.axes.size(); ++a) {
        const bool moved = read.by_axis[a] != 0;
        if (a >= tensor_.shape.size()) varied = varied || moved;
        else unmoved = unmoved || (has(static_cast<int>(a)) != 0 && !moved);
      }
      reads += varied;
      reused += varied && unmoved;
    }
    if (sum && reads > 1 && reused == reads) {
      return infeasible(concat(stage_.name, " is no sum of products that the NPU computes: of i8 "
                                            "into i32, or of bf16 into f32, read at sums of "
                                            "multiples of the axes"));
    }
    return absl::OkStatus();
  }

  // A row of scales or biases, in SPM: the same for all rows of a box.
  absl::StatusOr<int> row_of_columns(const ExprNode* read, double number, Type type) {
    if (read != nullptr && is_row(*read)) return operand(*read, type, kNpuSpm);
    if (read != nullptr && axes_of(*read) != 0) {
      return refuse(concat("scales such as ", name(*read), " are of the last axis alone"));
    }
    VectorValue row;
    row.kind = VectorValue::Kind::kRow;
    row.tile = tile_of(type, kNpuSpm, code_.vector_axis < 0 ? 0 : Axes{1} << code_.vector_axis);
    row.tile.steps.erase(row.tile.steps.begin(), row.tile.steps.end() - 1);
    row.number = number;
    if (read != nullptr) {
      row.tensor = read->index;
      row.source_begin = reads_.at(read).begin;
    }
    return add(std::move(row));
  }

  absl::StatusOr<int> requantise(const Requantisation& found) {
    if (config_.requant != npu::Requant::kF32Rne) {
      return refuse("it requantises as TensorFlow Lite does (requant is tflite), not by rounding");
    }
    VectorOp op;
    op.kind = Op::kRequantise;
    op.zero = found.zero, op.lo = found.lo, op.hi = found.hi;
    Expr sums = found.sums;
    const ExprNode* bias = nullptr;
    if (sums->op == ExprOp::kAdd) {
      for (int i = 0; i < 2 && bias == nullptr; ++i) {
        const Expr& other = sums->args[static_cast<size_t>(i)];
        if (other->op != ExprOp::kRead || !is_row(*other)) continue;
        bias = other.get();
        sums = sums->args[static_cast<size_t>(1 - i)];
      }
    }
    ASSIGN_OR_RETURN(const int value, value_of(sums));
    op.srcs[0] = spread(value, spatial_);
    ASSIGN_OR_RETURN(op.srcs[1], row_of_columns(found.scale, found.factor, Type::kF32));
    ASSIGN_OR_RETURN(op.srcs[2], row_of_columns(bias, 0, Type::kI32));
    return emit(op, Type::kI8, spatial_);
  }
  // Whether it varies along the vectors' axis alone.
  bool is_row(const ExprNode& read) const {
    return code_.vector_axis >= 0 && axes_of(read) == Axes{1} << code_.vector_axis;
  }
  Axes axes_of(const ExprNode& read) const {
    Axes axes = 0;
    const VectorRead& found = reads_.at(&read);
    for (size_t a = 0; a < found.by_axis.size(); ++a) {
      if (found.by_axis[a] != 0) axes |= Axes{1} << a;
    }
    return axes;
  }

  // ---------------------------------------------------------------------------- expressions

  absl::StatusOr<int> value_of(const Expr& e) {
    const auto known = known_.find(e.get());
    if (known != known_.end()) return known->second;
    ASSIGN_OR_RETURN(const int value, compute(e));
    known_.emplace(e.get(), value);
    return value;
  }

  absl::StatusOr<int> compute(const Expr& e) {
    const Type type = e->type == Type::kBF16 ? Type::kF32 : e->type;
    switch (e->op) {
      case ExprOp::kRead:
        if (type != Type::kI8 && type != Type::kI32 && type != Type::kF32) break;
        return operand(*e, type, place_of_type(type));
      case ExprOp::kConst: return constant(type, value_of_const(*e));
      case ExprOp::kCast: return cast(e);
      default: break;
    }
    if (type != Type::kI8 && type != Type::kI32 && type != Type::kF32) {
      return refuse(concat("it has i8, i32, bf16 and f32, not ", type_name(e->type)));
    }
    if (is_binary(e->op)) return binary(e, type);
    if (is_unary(e->op)) return unary(e, type);
    return refuse(concat("its vector engine has no ", op_name(e->op)));
  }

  static double value_of_const(const ExprNode& e) {
    return is_float(e.type) ? e.number : static_cast<double>(e.integer);
  }
  static bool is_const(const Expr& e) { return e->op == ExprOp::kConst; }

  absl::StatusOr<int> constant(Type type, double number) {
    VectorOp zero;
    zero.kind = Op::kZero;
    const int value = emit(zero, type, 0);
    return number == 0 ? value : scalar(ExprOp::kAdd, number, value);
  }

  absl::StatusOr<int> cast(const Expr& e) {
    const Expr& from = e->args[0];
    if (e->type == from->type) return value_of(from);
    if (e->type == Type::kI32 && from->type == Type::kI8 && from->op == ExprOp::kRead) {
      return operand(*from, Type::kI32, kNpuAcc);
    }
    if (e->type == Type::kF32 && from->type == Type::kBF16) return value_of(from);
    const std::string what =
        concat("it casts no ", type_name(from->type), " to ", type_name(e->type));
    if (e->type == Type::kI8) {
      return refuse(concat(what, " but as cast(i8, clamp(round(cast(f32, sums) * scale) + zero, "
                                 "lo, hi)), sums i32"));
    }
    return refuse(concat(what, e->type == Type::kI32 ? " but where it is read" : ""));
  }

  VectorOp two(ExprOp op, int a, int b) const {
    VectorOp result;
    result.expr_op = op;
    result.srcs[0] = a;
    result.srcs[1] = b;
    return result;
  }
  int scalar(ExprOp op, double number, int value) {
    VectorOp result;
    result.kind = Op::kScalar;
    result.expr_op = op;
    result.number = number;
    result.srcs[0] = value;
    return emit(result, type_of(value), axes_of(value));
  }
  int function(ExprOp op, int value) {
    VectorOp result;
    result.kind = Op::kUnary;
    result.expr_op = op;
    result.srcs[0] = value;
    return emit(result, type_of(value), axes_of(value));
  }

  // A column cannot be the first operand of rows.
  absl::StatusOr<int> combined(ExprOp op, int a, int b) {
    const Axes axes = axes_of(a) | axes_of(b);
    const auto column = [&](int value) {
      return code_.vector_axis >= 0 && (axes >> code_.vector_axis & 1) &&
             !(axes_of(value) >> code_.vector_axis & 1);
    };
    if (!column(a)) return emit(two(op, a, b), type_of(a), axes);
    if (op != ExprOp::kSub) return emit(two(op, b, a), type_of(a), axes);
    return scalar(ExprOp::kMul, -1, emit(two(op, b, a), type_of(a), axes));
  }

  absl::StatusOr<int> binary(const Expr& e, Type type) {
    const Expr &x = e->args[0], &y = e->args[1];
    const bool extremum = e->op == ExprOp::kMax || e->op == ExprOp::kMin;
    const bool arithmetic =
        e->op == ExprOp::kAdd || e->op == ExprOp::kSub || e->op == ExprOp::kMul;
    if (type == Type::kI8 && !extremum) {
      return refuse(concat("its ", op_name(e->op), " of i8 saturates: cast to i32 what is read"));
    }
    if (e->op == ExprOp::kPow && is_const(y) && value_of_const(*y) == 2) {
      ASSIGN_OR_RETURN(const int value, value_of(x));
      return combined(ExprOp::kMul, value, value);
    }
    const bool divides = e->op == ExprOp::kDiv && is_float(type);
    if (!extremum && !arithmetic && !divides) {
      return refuse(concat("its vector engine has no ", op_name(e->op), " of ", type_name(e->type)));
    }
    if (is_const(y)) {
      ASSIGN_OR_RETURN(const int value, value_of(x));
      const double number = value_of_const(*y);
      if (e->op == ExprOp::kSub) return scalar(ExprOp::kAdd, -number, value);
      if (!divides) return scalar(e->op, number, value);
      return scalar(ExprOp::kMul, static_cast<float>(1 / number), value);
    }
    ASSIGN_OR_RETURN(int b, value_of(y));
    if (is_const(x)) return scalar(e->op, value_of_const(*x), b);
    ASSIGN_OR_RETURN(const int a, value_of(x));
    if (!divides) return combined(e->op, a, b);
    return combined(ExprOp::kMul, a, scalar(ExprOp::kDiv, 1, b));
  }

  absl::StatusOr<int> unary(const Expr& e, Type type) {
    ASSIGN_OR_RETURN(const int x, value_of(e->args[0]));
    if (type == Type::kI8) {
      return refuse(concat("its ", op_name(e->op), " of i8 saturates: cast to i32 what is read"));
    }
    switch (e->op) {
      case ExprOp::kNeg: return scalar(ExprOp::kMul, -1, x);
      case ExprOp::kAbs: return function(ExprOp::kAbs, x);
      case ExprOp::kExp:
      case ExprOp::kRsqrt: return function(e->op, x);
      case ExprOp::kSqrt: return scalar(ExprOp::kDiv, 1, function(ExprOp::kRsqrt, x));
      case ExprOp::kSigmoid: {             // its table is less exact than that of exp
        const int power = function(ExprOp::kExp, scalar(ExprOp::kMul, -1, x));
        return scalar(ExprOp::kDiv, 1, scalar(ExprOp::kAdd, 1, power));
      }
      case ExprOp::kTanh:
        return refuse("its table of tanh is less exact than results may be: write 2 * "
                      "sigmoid(2 * x) - 1 where that will do");
      default: return refuse(concat("its vector engine has no ", op_name(e->op)));
    }
  }

  const Nest& nest_;
  const int index_;
  const Stage& stage_;
  const Tensor& tensor_;
  const npu::Config& config_;
  VectorCode code_;
  Axes spatial_ = 0, all_ = 0;
  bool moved_ = false;                     // only copied
  std::unordered_map<const ExprNode*, VectorRead> reads_;
  std::vector<std::pair<const ExprNode*, int>> operands_;
  std::unordered_map<const ExprNode*, int> known_;
};

}  // namespace

absl::StatusOr<VectorCode> vector_code(const Nest& nest, int stage) {
  return Compiler(nest, stage).run();
}

}  // namespace lw
