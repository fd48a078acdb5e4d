#include "src/peers/match/flow.h"

#include <algorithm>
#include <cmath>

#include "src/peers/match/access.h"

namespace lw {
namespace {

// Labels the axes of `tensor` by what its reads of labelled tensors say; false on a contradiction.
bool label_axes(const Program& program, const Flow& flow, const Tensor& tensor,
                std::vector<int>* axis_labels, bool* depends) {
  const auto extent = [&](int axis) {
    const int spatial = static_cast<int>(tensor.axes.size());
    return axis < spatial ? tensor.axes[axis].extent : tensor.reduce_axes[axis - spatial].extent;
  };
  bool consistent = true;
  *depends = false;
  visit(tensor.body, [&](const ExprNode& node) {
    if (node.op == ExprOp::kPad) consistent = false;
    if (node.op != ExprOp::kRead || flow.labels[node.index].empty()) return;
    if (node.index != flow.source && program.tensors[node.index].role == Role::kInput) return;
    *depends = true;
    const std::vector<int> axes = bare_axes(node);
    for (size_t d = 0; d < axes.size(); ++d) {
      const int64_t size = program.tensors[node.index].shape[d];
      if (size == 1) continue;
      if (axes[d] < 0 || extent(axes[d]) != size) {
        consistent = false;
        continue;
      }
      int& label = (*axis_labels)[axes[d]];
      if (label >= 0 && label != flow.labels[node.index][d]) consistent = false;
      label = flow.labels[node.index][d];
    }
  });
  return consistent;
}

// Labels the dimensions of the other tensors that `tensor` reads; false on a contradiction.
bool label_parameters(const Program& program, const Tensor& tensor,
                      const std::vector<int>& axis_labels, Flow* flow) {
  bool consistent = true;
  visit(tensor.body, [&](const ExprNode& node) {
    if (node.op != ExprOp::kRead || node.index == flow->source) return;
    const Tensor& read = program.tensors[node.index];
    if (read.role != Role::kInput) {
      if (flow->labels[node.index].empty() && !read.shape.empty()) consistent = false;
      return;
    }
    const std::vector<int> axes = bare_axes(node);
    std::vector<int> labels;
    for (size_t d = 0; d < axes.size(); ++d)
      labels.push_back(read.shape[d] == 1 || axes[d] < 0 ? -1 : axis_labels[axes[d]]);
    for (size_t d = 0; d < axes.size(); ++d)
      if (read.shape[d] > 1 && labels[d] < 0) consistent = false;
    std::vector<int>& known = flow->labels[node.index];
    if (std::find(flow->parameters.begin(), flow->parameters.end(), node.index) ==
        flow->parameters.end()) {
      flow->parameters.push_back(node.index);
      known = labels;
    } else if (known != labels) {
      consistent = false;
    }
  });
  return consistent;
}

bool add_tensor(const Program& program, int index, Flow* flow) {
  const Tensor& tensor = program.tensors[index];
  const size_t spatial = tensor.axes.size();
  std::vector<int> axis_labels(spatial + tensor.reduce_axes.size(), -1);
  bool depends = false;
  if (!label_axes(program, *flow, tensor, &axis_labels, &depends)) return false;
  if (!depends) return tensor.role == Role::kTemp;  // something else's business: maybe never read
  if (!label_parameters(program, tensor, axis_labels, flow)) return false;
  for (size_t i = 0; i < spatial; ++i)
    if (tensor.axes[i].extent > 1 && axis_labels[i] < 0) return false;
  flow->labels[index].assign(axis_labels.begin(), axis_labels.begin() + spatial);
  if (flow->labels[index].empty()) flow->labels[index] = {-1};  // rank 0, yet involved
  if (tensor.reduce != Reduce::kNone) {
    std::vector<int> reduced(axis_labels.begin() + spatial, axis_labels.end());
    reduced.erase(std::remove(reduced.begin(), reduced.end(), -1), reduced.end());
    std::sort(reduced.begin(), reduced.end());
    if (!flow->reduced.empty() && flow->reduced != reduced) return false;
    flow->reduced = reduced;
  }
  if (tensor.role == Role::kOutput) {
    if (flow->output >= 0) return false;
    flow->output = index;
  }
  return true;
}

}  // namespace

std::optional<Flow> trace_flow(const Program& program, int source) {
  Flow flow;
  flow.source = source;
  flow.labels.resize(program.tensors.size());
  const std::vector<int64_t>& shape = program.tensors[source].shape;
  for (size_t d = 0; d < shape.size(); ++d)
    flow.labels[source].push_back(static_cast<int>(d));
  if (program.tensors[source].role == Role::kOutput) flow.output = source;
  for (size_t t = 0; t < program.tensors.size(); ++t) {
    const int index = static_cast<int>(t);
    if (index <= source || program.tensors[t].role == Role::kInput) continue;
    if (!add_tensor(program, index, &flow)) return std::nullopt;
  }
  if (flow.output < 0) return std::nullopt;
  for (int label : flow.reduced) flow.group *= shape[label];
  return flow;
}

std::optional<bool> varies(const Program& program, const Flow& flow, int tensor) {
  size_t found = 0, needed = 0;
  for (int label : flow.reduced) {
    if (program.tensors[flow.source].shape[label] == 1) continue;
    ++needed;
    const std::vector<int>& labels = flow.labels[tensor];
    found += std::find(labels.begin(), labels.end(), label) != labels.end();
  }
  if (found == needed) return needed > 0;
  if (found == 0) return false;
  return std::nullopt;
}

std::vector<double> run_flow(const Program& program, const Flow& flow,
                             std::vector<std::vector<double>> values) {
  for (size_t t = flow.source + 1; t < program.tensors.size(); ++t) {
    const Tensor& tensor = program.tensors[t];
    if (flow.labels[t].empty() || tensor.role == Role::kInput) continue;
    const auto at = [&](int64_t i) {
      return evaluate(tensor.body, [&](int read) {
        const std::vector<double>& v = values[read];
        return v.empty() ? std::nan("") : v[v.size() == 1 ? 0 : i];
      });
    };
    if (tensor.reduce == Reduce::kNone) {
      const std::optional<bool> varying = varies(program, flow, static_cast<int>(t));
      if (!varying) return {std::nan("")};
      for (int64_t i = 0; i < (*varying ? flow.group : 1); ++i) values[t].push_back(at(i));
      continue;
    }
    double result = identity_float(tensor.reduce);
    for (int64_t i = 0; i < flow.group; ++i) {
      const double value = at(i);
      if (std::isnan(value)) return {value};
      switch (tensor.reduce) {
        case Reduce::kSum: result += value; break;
        case Reduce::kProd: result *= value; break;
        case Reduce::kMax: result = std::max(value, result); break;
        case Reduce::kMin: result = std::min(value, result); break;
        case Reduce::kNone: break;
      }
    }
    values[t] = {result};
  }
  return values[flow.output];
}

}  // namespace lw
