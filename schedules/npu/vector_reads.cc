#include "schedules/npu/vector_reads.h"

#include "loopwright/program.h"
#include "schedules/access.h"
#include "src/base/message.h"
#include "src/expr/language/text.h"

namespace lw {

absl::StatusOr<VectorRead> vector_read(const Nest& nest, int stage, const ExprNode& read) {
  const Tensor& tensor = nest.program->tensors[static_cast<size_t>(read.index)];
  const std::vector<NestAxis>& axes = nest.stages[stage].axes;
  VectorRead found;
  found.sizes.assign(tensor.shape.size(), 1);
  for (size_t d = tensor.shape.size(); d-- > 1;) {
    found.sizes[d - 1] = found.sizes[d] * tensor.shape[d];
  }
  found.by_axis.resize(axes.size());
  for (size_t d = 0; d < read.args.size(); ++d) {
    const IndexForm form = index_form(nest, stage, read.args[d]);
    if (!form.affine || form.gather) {
      const Tensor& own = nest.program->tensors[static_cast<size_t>(nest.stages[stage].tensor)];
      bool divides = false;
      visit(read.args[d], [&](const ExprNode& e) { divides = divides || e.op == ExprOp::kDiv; });
      return absl::FailedPreconditionError(
          concat("it reads ", tensor.name, " at ", print(*nest.program, own, read.args[d]),
                 ", which is no sum of multiples of axes",
                 divides ? ": write an operator for each remainder" : ""));
    }
    found.begin += form.constant * found.sizes[d];
    found.first.push_back(form.constant);
    int64_t last = form.constant;
    found.steps.emplace_back(axes.size());
    for (size_t a = 0; a < axes.size(); ++a) {
      const int64_t step = axes[a].extent > 1 ? step_of(form, static_cast<int>(a)) : 0;
      if (step < 0) {
        return absl::FailedPreconditionError(concat("it reads ", tensor.name, " backwards"));
      }
      found.steps.back()[a] = step;
      found.by_axis[a] += step * found.sizes[d];
      last += step * (axes[a].extent - 1);
    }
    found.leaves.push_back(form.constant < 0 || last >= tensor.shape[d]);
  }
  for (size_t d = 0; d < found.steps.size(); ++d) {
    for (size_t a = 0; a < axes.size() && found.leaves[d]; ++a) {
      const int64_t step = found.steps[d][a];
      if (step != 0 && found.by_axis[a] != step * found.sizes[d]) {
        return absl::FailedPreconditionError(
            concat("it reads padded ", tensor.name, " along several dimensions at once"));
      }
    }
  }
  return found;
}

int window_of(const VectorRead& read, int axis, int vector_axis) {
  for (size_t d = 0; d < read.steps.size(); ++d) {
    if (read.steps[d][static_cast<size_t>(axis)] == 0) continue;
    int movers = 0;
    for (size_t a = 0; a < read.by_axis.size(); ++a) {
      const int64_t step = read.steps[d][a];
      if (step == 0) continue;
      ++movers;
      const bool alone = read.by_axis[a] == step * read.sizes[d];
      if (static_cast<int>(a) == vector_axis || !alone) return -1;
    }
    return movers > 1 || read.leaves[d] ? static_cast<int>(d) : -1;
  }
  return -1;
}

}  // namespace lw
