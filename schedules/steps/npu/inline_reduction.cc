// inline_reduction(P, R)
//   before  P[i] = max[k](X[i, k])       after  P[i: 64, j: 100 max] inlined in R
//           R[i, j] = X[i, j] - P[i]            R[i: 64, j: 100]
// A reduction that one stage needs is computed in that stage's boxes, which hold whole what it
// reduces: what both read is loaded once, and P is never stored. Each axis of P becomes one of R's:
// those of its elements as R reads them, those that it reduces as both read the same.
#include <algorithm>
#include <optional>

#include "schedules/legality.h"
#include "schedules/npu/vector.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/expr.h"

namespace lw {
namespace {

// Bodies of the host and of what is inlined in it, over the host's axes.
std::vector<Expr> bodies_in(const Nest& nest, int host) {
  std::vector<Expr> bodies = {effective_body(nest, host)};
  for (int s = 0; s < static_cast<int>(nest.stages.size()); ++s) {
    const Stage& stage = nest.stages[s];
    if (stage.place != Place::kInlined || stage.host != host) continue;
    bodies.push_back(substitute(effective_body(nest, s), stage.axis_value));
  }
  return bodies;
}

class HostAxes {
 public:
  HostAxes(const Nest& nest, int stage, int host)
      : stage_(nest.stages[stage]),
        host_(nest.stages[host]),
        tensor_(nest.program->tensors[static_cast<size_t>(stage_.tensor)]),
        bodies_(bodies_in(nest, host)),
        found_(stage_.axes.size(), -1) {}

  // The host's axis for each of the stage's; -1: any, of one point.
  absl::StatusOr<std::vector<int>> find() {
    for (const Expr& body : bodies_) {
      for (const ExprNode* read : reads_in(body)) {
        if (read->index == stage_.tensor) RETURN_IF_ERROR(find_kept(*read));
      }
    }
    for (size_t a = tensor_.shape.size(); a < found_.size(); ++a) {
      found_[a] = alike(static_cast<int>(a));
      if (found_[a] >= 0 || stage_.axes[a].extent == 1) continue;
      return infeasible(concat(host_.name, " has no axis that ", stage_.name, "'s ",
                               stage_.axes[a].name, " could run along"));
    }
    return found_;
  }

 private:
  absl::Status find_kept(const ExprNode& read) {
    for (size_t d = 0; d < tensor_.shape.size(); ++d) {
      const ExprNode& index = *read.args[d];
      const bool first = found_[d] < 0;
      if (tensor_.shape[d] == 1) {         // of one point, whatever it is called
        const bool axis = index.op == ExprOp::kAxis && first && !is_taken(index.index);
        if (axis) found_[d] = index.index;
        continue;
      }
      const bool fits = index.op == ExprOp::kAxis && (first || found_[d] == index.index) &&
                        host_.axes[static_cast<size_t>(index.index)].extent == tensor_.shape[d] &&
                        (!first || !is_taken(index.index));
      if (!fits) {
        return infeasible(concat(host_.name, " reads ", stage_.name, " otherwise than point by "
                                 "point"));
      }
      found_[d] = index.index;
    }
    return absl::OkStatus();
  }

  bool is_taken(int axis) const {
    return std::find(found_.begin(), found_.end(), axis) != found_.end();
  }
  bool may_be(int axis, int host_axis) const {
    return host_.axes[static_cast<size_t>(host_axis)].extent ==
               stage_.axes[static_cast<size_t>(axis)].extent &&
           !is_taken(host_axis);
  }

  // The host's axis that moves a tensor as the stage's axis does; else the last that has its extent.
  int alike(int axis) const {
    for (const ExprNode* own : reads_in(stage_.body->value)) {
      for (size_t d = 0; d < own->args.size(); ++d) {
        if (own->args[d]->op != ExprOp::kAxis || own->args[d]->index != axis) continue;
        for (const Expr& body : bodies_) {
          for (const ExprNode* read : reads_in(body)) {
            if (read->index != own->index || read->args[d]->op != ExprOp::kAxis) continue;
            if (may_be(axis, read->args[d]->index)) return read->args[d]->index;
          }
        }
      }
    }
    for (int a = static_cast<int>(host_.axes.size()); a-- > 0;) {
      if (may_be(axis, a)) return a;
    }
    return -1;
  }

  const Stage &stage_, &host_;
  const Tensor& tensor_;
  const std::vector<Expr> bodies_;
  std::vector<int> found_;
};

bool is_as_written(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  const bool plain = std::all_of(s.loops.begin(), s.loops.end(), is_plain);
  const bool hosts = std::any_of(nest.stages.begin(), nest.stages.end(), [&](const Stage& other) {
    return other.place != Place::kInlined && other.host == stage;
  });
  return plain && !hosts && s.place == Place::kRoot && s.copy_of < 0 && s.axis_value.empty() &&
         s.factored_axis < 0 && s.variant < 0 && s.copies.empty() && s.epilogue.empty();
}

absl::Status apply_inline_reduction(Nest& nest, const Step& step) {
  RETURN_IF_ERROR(expect(step, {2, 2, 0, 0}));
  ASSIGN_OR_RETURN(const int stage, target_stage(nest, step));
  const int host = find_stage(nest, step.names[1]);
  if (host < 0) return infeasible(concat("no stage ", step.names[1]));
  Stage& s = nest.stages[stage];
  const Stage& h = nest.stages[host];
  const Tensor& tensor = nest.program->tensors[static_cast<size_t>(s.tensor)];
  if (tensor.reduce == Reduce::kNone) return infeasible(concat(s.name, " is no reduction"));
  if (tensor.role == Role::kOutput) return infeasible(concat(s.name, " is an output"));
  for (const int number : {stage, host}) {
    if (is_as_written(nest, number)) continue;
    return infeasible(concat(nest.stages[number].name, " is not as it was written"));
  }
  if (readers(nest, s.tensor) != std::vector<int>{host}) {
    return infeasible(concat(h.name, " is not all that reads ", s.name));
  }
  ASSIGN_OR_RETURN(const std::vector<int> axes, HostAxes(nest, stage, host).find());
  s.axes = h.axes;
  s.loops = h.loops;
  s.axis_value.clear();
  for (NestAxis& axis : s.axes) axis.reduction = false;
  for (size_t a = 0; a < axes.size(); ++a) {
    s.axis_value.push_back(axes[a] < 0 ? make_int(Type::kI64, 0) : make_axis(axes[a]));
    if (a >= tensor.shape.size() && axes[a] >= 0) {
      s.axes[static_cast<size_t>(axes[a])].reduction = true;
    }
  }
  s.place = Place::kInlined;
  s.host = host;
  RETURN_IF_ERROR(vector_code(nest, host).status());
  return check_places(nest);
}

}  // namespace

const StepKind& inline_reduction() {
  static constexpr StepKind kind = {"inline_reduction", 1, apply_inline_reduction, nullptr, "npu"};
  return kind;
}

}  // namespace lw
