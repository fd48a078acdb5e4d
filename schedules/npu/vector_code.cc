// From a stage's body to the vector engine's operations.
#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "schedules/npu/requantisation.h"
#include "schedules/npu/vector.h"
#include "schedules/npu/vector_functions.h"
#include "schedules/npu/vector_masks.h"
#include "schedules/targets/npu/machine.h"
#include "schedules/targets/npu/npu_target.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/expr.h"
#include "src/expr/intern.h"

namespace lw {
namespace {

using Op = VectorOp::Kind;
using Axes = VectorValues::Axes;

class Compiler : private VectorMasks {
 public:
  Compiler(const Nest& nest, int stage) : VectorMasks(nest, stage) {}

  absl::StatusOr<VectorCode> run() {
    RETURN_IF_ERROR(check());
    const Expr body = find_inlined(effective_body(nest_, index_));
    RETURN_IF_ERROR(find_reads(body));
    moved_ = body->op == ExprOp::kRead && code_.reduce == Reduce::kNone && held_ < 0 &&
             inlined(*body) < 0;
    choose_axes();
    if (held_ >= 0) RETURN_IF_ERROR(check_held());
    RETURN_IF_ERROR(code_.reduce == Reduce::kNone ? compile_map(body) : compile_reduction(body));
    find_places(code_);
    return std::move(code_);
  }

 private:
  absl::Status check() const {
    if (stage_.copy_of >= 0 || stage_.axes.size() > 60) return refuse("it has too many axes");
    if (!stage_.axis_value.empty() || stage_.factored_axis >= 0) {
      return refuse("its axes are not those of its tensor");
    }
    return has_type(tensor_.type)
               ? absl::OkStatus()
               : refuse(concat("it has i8, i32, bf16 and f32, not ", type_name(tensor_.type)));
  }

  // What they have in common, and the body has, becomes one node.
  Expr find_inlined(Expr body) {
    Interner nodes;
    for (int s = 0; s < static_cast<int>(nest_.stages.size()); ++s) {
      const Stage& stage = nest_.stages[s];
      if (stage.place != Place::kInlined || stage.host != index_) continue;
      inlined_.emplace_back(s, nodes.share(substitute(effective_body(nest_, s), stage.axis_value)));
    }
    return inlined_.empty() ? body : nodes.share(body);
  }

  // ---------------------------------------------------------------------------- stages

  absl::Status compile_map(const Expr& body) {
    if (moved_) {
      code_.body = operand(*body, body->type, kNpuSpm);
      if (axes_of(code_.body) == spatial_) {
        return finish(code_.body);
      }
      moved_ = false;                      // it is broadcast
      begin();
      choose_axes();
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
    const VectorValue& read = code_.values[static_cast<size_t>(value)];
    const bool filled = code_.by_rows && !read.borders.empty();
    // Rows are filled up with another number than is in the borders.
    if (filled && read.number != identity_of(code_.reduce, read.tile.type)) {
      value = copied(value, axes_of(value));
    }
    code_.body = code_.rows = value;
    const Type type = type_of(value);
    const Axes rows = code_.by_rows ? Axes{1} << code_.vector_axis : 0;
    if (code_.by_rows && (reduced & ~rows) != 0) code_.rows = computed(type, spatial_ | rows);
    code_.result = computed(type, spatial_);
    code_.partial = code_.by_rows ? computed(type, spatial_) : code_.rows;
    return finish(code_.result);
  }

  absl::Status check_reduction() const {
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
    if (code_.reduce == Reduce::kSum && reads > 1 && reused == reads) {
      return infeasible(no_product(nest_, index_));
    }
    return absl::OkStatus();
  }

  // A row of scales or biases, in SPM: the same for all rows of a box.
  absl::StatusOr<int> row_of_columns(const ExprNode* read, double number, Type type) {
    if (read != nullptr && inlined(*read) >= 0) {
      return refuse(concat("scales such as ", name(*read), " are in DRAM"));
    }
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
  // Whether it varies along the vectors' axis alone; what is held lies where no row is read.
  bool is_row(const ExprNode& read) const {
    return read.index != held_ && inlined(read) < 0 && code_.vector_axis >= 0 &&
           axes_of(read) == Axes{1} << code_.vector_axis;
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
    if (e->type == Type::kBool) return mask(e);
    const Type type = e->type == Type::kBF16 ? Type::kF32 : e->type;
    switch (e->op) {
      case ExprOp::kRead:
      case ExprOp::kPad:
        if (e->op == ExprOp::kRead && e->index == held_) {
          if (reads_own_point(*e)) return held(type);
          return refuse(concat("it reads ", name(*e), " at other points than its own"));
        }
        if (e->op == ExprOp::kRead && inlined(*e) >= 0) return reduction(inlined(*e));
        if (e->op == ExprOp::kPad && inlined(*e->args[0]) >= 0) {
          return refuse(concat("it pads ", name(*e->args[0]), ", which is not in DRAM"));
        }
        if (type != Type::kI8 && type != Type::kI32 && type != Type::kF32) break;
        return operand(*e, type, memory_of(type));
      case ExprOp::kConst: return constant(type, number_of(*e));
      case ExprOp::kCast: return cast(e);
      case ExprOp::kSelect: return select(e, type);
      default: break;
    }
    if (type != Type::kI8 && type != Type::kI32 && type != Type::kF32) {
      return refuse(concat("it has i8, i32, bf16 and f32, not ", type_name(e->type)));
    }
    if (is_binary(e->op)) return binary(e, type);
    if (is_unary(e->op)) return unary(e, type);
    return refuse(concat("its vector engine has no ", op_name(e->op)));
  }

  absl::StatusOr<int> cast(const Expr& e) {
    const Expr& from = e->args[0];
    if (e->type == from->type) return value_of(from);
    const bool is_read = from->op == ExprOp::kPad ||
                         (from->op == ExprOp::kRead && inlined(*from) < 0);
    if (e->type == Type::kI32 && from->type == Type::kI8 && is_read) {
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

  absl::StatusOr<int> mask(const Expr& e) {
    if (e->op == ExprOp::kConst) return constant(Type::kI32, e->integer != 0);
    if (is_comparison(e->op)) {
      if (const std::optional<int> of_indices = index_mask(e)) return *of_indices;
    }
    std::vector<int> values;
    for (const Expr& arg : e->args) {
      ASSIGN_OR_RETURN(const int value, value_of(arg));
      if (memory_of(type_of(value)) != kNpuAcc) {
        return refuse("it compares i32 and f32: cast to i32 what is read");
      }
      values.push_back(value);
    }
    switch (e->op) {
      case ExprOp::kNot: return negated(values[0]);
      case ExprOp::kAnd: return combined(ExprOp::kMul, values[0], values[1]);
      case ExprOp::kOr: return combined(ExprOp::kMax, values[0], values[1]);
      default: break;
    }
    if (is_comparison(e->op)) return data_mask(*e, values[0], values[1]);
    return refuse(concat("it chooses by no ", op_name(e->op)));
  }

  absl::StatusOr<int> select(const Expr& e, Type type) {
    if (type != Type::kI32 && type != Type::kF32) {
      return refuse(concat("its where of ", type_name(e->type), ": cast to i32 what it chooses"));
    }
    ASSIGN_OR_RETURN(const int condition, value_of(e->args[0]));
    Choice sides[2];
    for (int i = 0; i < 2; ++i) {
      const Expr& side = e->args[static_cast<size_t>(1 + i)];
      if (is_const(side)) {
        sides[i].number = number_of(*side);
      } else {
        ASSIGN_OR_RETURN(sides[i].value, value_of(side));
      }
    }
    return choose(condition, sides[0], sides[1], type);
  }

  // Of what is inlined, the result, at the points of the box.
  absl::StatusOr<int> reduction(int stage) {
    if (const auto known = reduced_.find(stage); known != reduced_.end()) return known->second;
    const Stage& s = nest_.stages[stage];
    const Tensor& tensor = nest_.program->tensors[static_cast<size_t>(s.tensor)];
    Axes kept = 0, reduced = 0;
    for (size_t a = 0; a < s.axis_value.size(); ++a) {
      if (s.axis_value[a]->op != ExprOp::kAxis) continue;
      (a < tensor.shape.size() ? kept : reduced) |= has(s.axis_value[a]->index);
    }
    const Axes rows = code_.vector_axis < 0 ? 0 : Axes{1} << code_.vector_axis;
    const auto body = std::find_if(inlined_.begin(), inlined_.end(),
                                   [&](const auto& entry) { return entry.first == stage; });
    ASSIGN_OR_RETURN(int value, value_of(body->second));
    value = spread(value, kept | reduced);
    const auto reduce = [&](Axes axes) {
      VectorOp op;
      op.kind = Op::kReduce;
      op.reduce = tensor.reduce;
      op.srcs[0] = value;
      value = emit(op, type_of(value), axes);
    };
    if (memory_of(type_of(value)) != kNpuAcc) {
      return refuse(concat("boxes of ", tensor.name, " are reduced in ACC, as i32 or f32"));
    }
    if ((reduced & ~rows) != 0) reduce(kept | (reduced & rows));
    if ((reduced & rows) != 0) {
      RETURN_IF_ERROR(check_rows(tensor, type_of(value)));
      reduce(kept);
    }
    for (int a = 0; a < static_cast<int>(stage_.axes.size()); ++a) {
      if (!(reduced >> a & 1) || is_whole(code_, a)) continue;
      code_.whole.emplace_back(a, stage_.axes[static_cast<size_t>(a)].extent);
    }
    return reduced_[stage] = value;
  }
  absl::Status check_rows(const Tensor& tensor, Type type) {
    if (tensor.reduce != Reduce::kSum && tensor.reduce != Reduce::kMax) {
      return refuse(concat("of ", tensor.name, " it adds up rows and finds their maxima alone"));
    }
    const VectorCode::Ragged ragged = {tensor.reduce, type};
    const int64_t row = stage_.axes[static_cast<size_t>(code_.vector_axis)].extent;
    const bool whole = row % vector_padding(config_) == 0;
    const bool known =
        std::find(code_.ragged.begin(), code_.ragged.end(), ragged) != code_.ragged.end();
    if (!whole && !known) code_.ragged.push_back(ragged);
    return absl::OkStatus();
  }

  absl::StatusOr<int> binary(const Expr& e, Type type) {
    const Expr &x = e->args[0], &y = e->args[1];
    const bool extremum = e->op == ExprOp::kMax || e->op == ExprOp::kMin;
    const bool arithmetic =
        e->op == ExprOp::kAdd || e->op == ExprOp::kSub || e->op == ExprOp::kMul;
    if (type == Type::kI8 && !extremum) {
      return refuse(concat("its ", op_name(e->op), " of i8 saturates: cast to i32 what is read"));
    }
    if (e->op == ExprOp::kPow && is_const(y) && number_of(*y) == 2) {
      ASSIGN_OR_RETURN(const int value, value_of(x));
      return combined(ExprOp::kMul, value, value);
    }
    const bool divides = e->op == ExprOp::kDiv && is_float(type);
    if (!extremum && !arithmetic && !divides) {
      return refuse(
          concat("its vector engine has no ", op_name(e->op), " of ", type_name(e->type)));
    }
    if (is_const(y)) {
      ASSIGN_OR_RETURN(const int value, value_of(x));
      const double number = number_of(*y);
      if (e->op == ExprOp::kSub) return scalar(ExprOp::kAdd, -number, value);
      if (!divides) return scalar(e->op, number, value);
      return scalar(ExprOp::kMul, static_cast<float>(1 / number), value);
    }
    ASSIGN_OR_RETURN(int b, value_of(y));
    if (is_const(x)) return scalar(e->op, number_of(*x), b);
    ASSIGN_OR_RETURN(const int a, value_of(x));
    if (!divides) return combined(e->op, a, b);
    return combined(ExprOp::kMul, a, scalar(ExprOp::kDiv, 1, b));
  }

  absl::StatusOr<int> unary(const Expr& e, Type type) {
    ASSIGN_OR_RETURN(const int x, value_of(e->args[0]));
    if (type == Type::kI8) {
      return refuse(concat("its ", op_name(e->op), " of i8 saturates: cast to i32 what is read"));
    }
    if (e->op == ExprOp::kTanh || e->op == ExprOp::kErf) {
      const Expr argument = make_cast(Type::kF32, e->args[0]);
      composed_.push_back(e->op == ExprOp::kTanh ? tanh_of(argument) : erf_of(argument));
      return value_of(composed_.back());
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
      default: return refuse(concat("its vector engine has no ", op_name(e->op)));
    }
  }

  std::unordered_map<const ExprNode*, int> known_;
  std::unordered_map<int, int> reduced_;   // by stage
  std::vector<Expr> composed_;             // what `known_` has of functions made of others
};

}  // namespace

absl::StatusOr<VectorCode> vector_code(const Nest& nest, int stage) {
  // Traces of other machines may name steps of this one's.
  if (nest.target->part.family() != &kNpuFamily) {
    return infeasible(concat(nest.target->name, " is no NPU"));
  }
  return Compiler(nest, stage).run();
}

}  // namespace lw
