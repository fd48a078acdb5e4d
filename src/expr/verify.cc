// verify(): what every Program satisfies, whoever built it. The front end reports the same mistakes
// earlier and with a position; this is the net under it and under programs from elsewhere.
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/bounds.h"
#include "src/expr/expr.h"
#include "src/expr/limits.h"
#include "src/expr/scalar.h"

namespace lw {
namespace {

struct Verifier {
  const Program& program;
  const Tensor& tensor;
  int position;

  absl::Status error(std::string_view what) const {
    return absl::InvalidArgumentError(concat(program.name, ": ", tensor.name, ": ", what));
  }

  absl::Status expr(const Expr& e, int depth) const {
    if (!e) return error("a null expression");
    if (depth > 4 * kMaxDepth) return error("an expression nested too deep");
    for (const Expr& arg : e->args) RETURN_IF_ERROR(expr(arg, depth + 1));
    auto arity = [&](size_t n) { return e->args.size() == n; };
    bool ok = true;
    switch (e->op) {
      case ExprOp::kConst: ok = arity(0); break;
      case ExprOp::kAxis: {
        const size_t axes = tensor.axes.size() + tensor.reduce_axes.size();
        ok = arity(0) && e->type == Type::kI64 && e->index >= 0 &&
             static_cast<size_t>(e->index) < axes;
        break;
      }
      case ExprOp::kRead: return read(*e);
      case ExprOp::kPad:
        ok = arity(2) && e->args[0]->op == ExprOp::kRead && e->args[0]->type == e->type &&
             e->args[1]->type == e->type;
        break;
      case ExprOp::kSelect:
        ok = arity(3) && e->args[0]->type == Type::kBool && e->args[1]->type == e->type &&
             e->args[2]->type == e->type;
        break;
      case ExprOp::kCast: ok = arity(1); break;
      default: ok = operation(*e);
    }
    return ok ? absl::OkStatus() : error(concat("an ill-typed '", op_name(e->op), "'"));
  }

  static bool operation(const ExprNode& e) {
    if (e.args.size() != (is_binary(e.op) ? 2 : 1)) return false;
    const Type type = e.args[0]->type;
    if (e.args.size() == 2 && e.args[1]->type != type) return false;
    return accepts(domain_of(e.op), type) && e.type == (is_comparison(e.op) ? Type::kBool : type);
  }

  absl::Status read(const ExprNode& e) const {
    if (e.index < 0 || e.index >= position) return error("a read of a tensor not yet defined");
    const Tensor& source = program.tensors[static_cast<size_t>(e.index)];
    if (e.type != source.type) return error(concat("a read of ", source.name,
                                                         " in another type"));
    if (e.args.size() != source.shape.size()) {
      return error(concat("a read of ", source.name, " with ", e.args.size(),
                                " indices for its rank of ", source.shape.size()));
    }
    for (const Expr& index : e.args) {
      if (index->type != Type::kI64) return error("an index that is not i64");
    }
    return absl::OkStatus();
  }

  absl::Status shape() const {
    if (tensor.shape.size() > kMaxRank) return error("too many dimensions");
    int64_t count = 1;
    for (int64_t extent : tensor.shape) {
      if (extent < 1) return error(concat("an extent of ", extent));
      if (extent > kMaxElements / count) return error("more than 2^40 elements");
      count *= extent;
    }
    return absl::OkStatus();
  }

  absl::Status definition() const {
    if (tensor.axes.size() != tensor.shape.size()) return error("axes do not match its shape");
    for (size_t i = 0; i < tensor.axes.size(); ++i) {
      if (tensor.axes[i].extent != tensor.shape[i]) return error("axes do not match its shape");
    }
    if ((tensor.reduce == Reduce::kNone) != tensor.reduce_axes.empty()) {
      return error("a reduction without axes, or axes without a reduction");
    }
    if (tensor.reduce_axes.size() > kMaxRank) return error("too many reduction axes");
    for (const Axis& axis : tensor.reduce_axes) {
      if (axis.extent < 1 || axis.extent > kMaxElements) {
        return error(concat("a reduction over an extent of ", axis.extent));
      }
    }
    RETURN_IF_ERROR(expr(tensor.body, 0));
    if (tensor.body->type != tensor.type) return error("a body of another type");
    if (tensor.reduce != Reduce::kNone && tensor.type == Type::kBool) {
      return error("a reduction of bool");
    }
    return reads_in_bounds();
  }

  absl::Status reads_in_bounds() const {
    std::vector<Axis> axes = tensor.axes;
    axes.insert(axes.end(), tensor.reduce_axes.begin(), tensor.reduce_axes.end());
    ShapeOf shape_of = [this](int i) -> const std::vector<int64_t>& {
      return program.tensors[static_cast<size_t>(i)].shape;
    };
    std::vector<ReadFault> faults = find_read_faults(tensor.body, facts_of(axes), shape_of);
    if (faults.empty()) return absl::OkStatus();
    const ReadFault& fault = faults.front();
    return error(concat("index ", fault.dimension + 1, " of ",
                              program.tensors[static_cast<size_t>(fault.read->index)].name,
                              " ranges over [", fault.range.lo, ", ", fault.range.hi,
                              "], the extent is ", fault.extent));
  }
};

}  // namespace

absl::Status verify(const Program& program) {
  bool computed = false;
  for (size_t i = 0; i < program.tensors.size(); ++i) {
    const Tensor& tensor = program.tensors[i];
    Verifier verifier{program, tensor, static_cast<int>(i)};
    RETURN_IF_ERROR(verifier.shape());
    if (tensor.role == Role::kInput) {
      if (computed) return verifier.error("an input after a computed tensor");
      if (tensor.body) return verifier.error("an input with a body");
    } else {
      computed = true;
      for (int read : reads_of(tensor)) {
        if (tensor.is_const && !program.tensors[read].is_const)
          return verifier.error("a const tensor computed from one that is not");
      }
      RETURN_IF_ERROR(verifier.definition());
    }
  }
  if (outputs(program).empty()) {
    return absl::InvalidArgumentError(concat(program.name, ": no output"));
  }
  const size_t definitions = program.tensors.size() - inputs(program).size();
  if (definitions > kMaxDefinitions) {
    return absl::InvalidArgumentError(concat(program.name, ": ", definitions,
                                             " definitions; at most ", kMaxDefinitions,
                                             " are supported"));
  }
  double total = 0;
  for (int tensor : arguments(program)) total += static_cast<double>(bytes(program.tensors[tensor]));
  if (total > kMaxArgumentBytes) {
    return absl::InvalidArgumentError(
        concat(program.name, ": inputs and outputs have ", static_cast<int64_t>(total / 1e9),
               " GB together; no machine holds more than ",
               static_cast<int64_t>(kMaxArgumentBytes / 1e9)));
  }
  return absl::OkStatus();
}

}  // namespace lw
