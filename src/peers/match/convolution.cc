// Every dimension of the windowed operand X is one of: the batch (a bare spatial axis that the
// weights do not have), a window (one spatial and one reduced axis, linear), or the channels (a
// bare axis, or group(co) * channels + ci). The weights W have bare axes only, and those say what
// is left: taps, input channels, output channels. Depthwise: the channel axis is spatial and in
// both. Transposed: the windows are quotients, (position + padding - tap * dilation) / stride, and
// the product counts where nothing remains.
#include "src/peers/match/convolution.h"

#include <algorithm>

#include "schedules/access.h"
#include "src/peers/match/known_functions.h"

namespace lw {
namespace {

// `index` at the given axis values, by the language's floor semantics; false: not of axes alone.
bool index_value(const Expr& index, const std::vector<int64_t>& axes, int64_t* value) {
  if (index->op == ExprOp::kConst) return *value = index->integer, true;
  if (index->op == ExprOp::kAxis) return *value = axes[index->index], true;
  if (index->op == ExprOp::kCast) return index_value(index->args[0], axes, value);
  int64_t a = 0, b = 0;
  if (index->args.size() != 2 || !index_value(index->args[0], axes, &a) ||
      !index_value(index->args[1], axes, &b))
    return false;
  const int64_t quotient = b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0));
  switch (index->op) {
    case ExprOp::kAdd: *value = a + b; return true;
    case ExprOp::kSub: *value = a - b; return true;
    case ExprOp::kMul: *value = a * b; return true;
    case ExprOp::kDiv: *value = quotient; return true;
    case ExprOp::kMod: *value = b == 0 ? 0 : a - quotient * b; return true;
    default: return false;
  }
}

// The axes of the contraction, with the roles found so far.
struct Shape {
  const Program& program;
  const Flow& flow;
  const Tensor& tensor;
  const ExprNode* x = nullptr;
  const ExprNode* w = nullptr;
  std::vector<int> w_axes;

  int spatial() const { return static_cast<int>(tensor.axes.size()); }
  int axis_count() const { return spatial() + static_cast<int>(tensor.reduce_axes.size()); }
  bool is_reduced(int axis) const { return axis >= spatial(); }
  int64_t extent(int axis) const {
    return is_reduced(axis) ? tensor.reduce_axes[axis - spatial()].extent
                            : tensor.axes[axis].extent;
  }
  bool in_w(int axis) const {
    return std::find(w_axes.begin(), w_axes.end(), axis) != w_axes.end();
  }
};

int64_t w_stride(const Shape& s, int axis) {
  const std::vector<int64_t> strides = dense_strides(s.program.tensors[s.w->index].shape);
  for (size_t d = 0; d < s.w_axes.size(); ++d)
    if (s.w_axes[d] == axis) return strides[d];
  return 0;
}

int64_t y_stride(const Shape& s, int axis) {
  const std::vector<int64_t> strides = dense_strides(s.program.tensors[s.flow.output].shape);
  for (size_t d = 0; d < strides.size(); ++d)
    if (s.flow.labels[s.flow.output][d] == axis) return strides[d];
  return 0;
}

// group(co) * input channels + ci: sets the two axes and the number of groups.
struct GroupedChannels {
  int out = -1, in = -1;
  int64_t groups = 1;
};
bool grouped_channels(const Shape& s, const Expr& index, int64_t size, GroupedChannels* found) {
  visit(index, [&](const ExprNode& node) {
    if (node.op != ExprOp::kAxis) return;
    (s.is_reduced(node.index) ? found->in : found->out) = node.index;
  });
  if (found->out < 0 || found->in < 0 || size % s.extent(found->in) != 0) return false;
  found->groups = size / s.extent(found->in);
  if (s.extent(found->out) % found->groups != 0) return false;
  const int64_t per_group = s.extent(found->out) / found->groups;
  std::vector<int64_t> axes(s.axis_count(), 0);
  for (int64_t co = 0; co < s.extent(found->out); ++co)
    for (int64_t ci = 0; ci < s.extent(found->in); ++ci) {
      axes[found->out] = co, axes[found->in] = ci;
      int64_t value = -1;
      if (!index_value(index, axes, &value) || value != co / per_group * s.extent(found->in) + ci)
        return false;
    }
  return true;
}

// Adds the window of dimension `d` of X; false when the index is no window.
bool add_window(const Shape& s, const IndexForm& index, int64_t in, int64_t x_stride,
                PeerConvolution* c, std::vector<std::pair<int64_t, int64_t>>* w_y_strides) {
  int position = -1, tap = -1;
  for (int axis = 0; axis < s.axis_count(); ++axis) {
    if (step_of(index, axis) == 0) continue;
    int& slot = s.is_reduced(axis) ? tap : position;
    if (slot >= 0 || step_of(index, axis) < 0) return false;
    slot = axis;
  }
  if (position < 0 || s.in_w(position) || (tap >= 0 && !s.in_w(tap))) return false;
  const int64_t kernel = tap < 0 ? 1 : s.extent(tap), out = s.extent(position);
  const int64_t stride = step_of(index, position);
  const int64_t dilation = tap < 0 ? 1 : step_of(index, tap);
  const int64_t last = (out - 1) * stride + (kernel - 1) * dilation + index.constant;
  c->in.push_back(in);
  c->out.push_back(out);
  c->kernel.push_back(kernel);
  c->stride.push_back(stride);
  c->dilation.push_back(dilation);
  c->pad_low.push_back(-index.constant);
  c->pad_high.push_back(last - (in - 1));
  c->x.strides.push_back(x_stride);
  w_y_strides->push_back({tap < 0 ? 1 : w_stride(s, tap), y_stride(s, position)});
  return index.constant <= 0;
}

// The conditions of a conjunction.
void add_conditions(const Expr& condition, std::vector<Expr>* all) {
  if (condition->op == ExprOp::kAnd) {
    for (const Expr& arg : condition->args) add_conditions(arg, all);
  } else {
    all->push_back(condition);
  }
}

// Takes `index % divisor == 0` out of `conditions`; false when it is not there.
bool take_multiple(const Shape& s, const IndexForm& index, int64_t divisor,
                   std::vector<Expr>* conditions) {
  const auto is_it = [&](const Expr& c) {
    if (c->op != ExprOp::kEq || c->args[0]->op != ExprOp::kMod) return false;
    const Expr &zero = c->args[1], &by = c->args[0]->args[1];
    if (zero->op != ExprOp::kConst || zero->integer != 0) return false;
    if (by->op != ExprOp::kConst || by->integer != divisor) return false;
    const IndexForm of = index_form(c->args[0]->args[0]);
    bool same = of.affine && of.constant == index.constant;
    for (int axis = 0; axis < s.axis_count(); ++axis)
      same = same && step_of(of, axis) == step_of(index, axis);
    return same;
  };
  const auto found = std::find_if(conditions->begin(), conditions->end(), is_it);
  if (found == conditions->end()) return false;
  conditions->erase(found);
  return true;
}

// Adds the window of dimension `d` of X of a transposed convolution; false when it is none.
bool add_transposed_window(const Shape& s, const Expr& index, int64_t in, int64_t x_stride,
                           PeerConvolution* c, std::vector<Expr>* conditions,
                           std::vector<std::pair<int64_t, int64_t>>* w_y_strides) {
  if (index->op != ExprOp::kDiv || index->args[1]->op != ExprOp::kConst) return false;
  const int64_t stride = index->args[1]->integer;
  const IndexForm form = index_form(index->args[0]);
  if (!form.affine || stride < 1 || !take_multiple(s, form, stride, conditions)) return false;
  int position = -1, tap = -1;
  for (int axis = 0; axis < s.axis_count(); ++axis) {
    if (step_of(form, axis) == 0) continue;
    int& slot = s.is_reduced(axis) ? tap : position;
    if (slot >= 0) return false;
    slot = axis;
  }
  if (position < 0 || tap < 0 || s.in_w(position) || !s.in_w(tap)) return false;
  const int64_t dilation = -step_of(form, tap);
  if (step_of(form, position) != 1 || dilation < 1) return false;
  const int64_t kernel = s.extent(tap), out = s.extent(position);
  c->transposed = true;
  c->in.push_back(in);
  c->out.push_back(out);
  c->kernel.push_back(kernel);
  c->stride.push_back(stride);
  c->dilation.push_back(dilation);
  c->pad_low.push_back(form.constant);
  c->pad_high.push_back((in - 1) * stride + (kernel - 1) * dilation + 1 - form.constant - out);
  c->x.strides.push_back(x_stride);
  w_y_strides->push_back({w_stride(s, tap), y_stride(s, position)});
  return true;
}

// Roles of the axes of X's dimensions.
struct Roles {
  int batch = -1, in_channel = -1, out_channel = -1;  // axes; depthwise: one spatial channel axis
  int64_t groups = 1;
  int64_t batch_stride = 0, channel_stride = 0;
};

bool assign_roles(const Shape& s, std::vector<Expr> conditions, Roles* roles, PeerConvolution* c,
                  std::vector<std::pair<int64_t, int64_t>>* w_y_strides) {
  const bool transposed = !conditions.empty();
  const std::vector<int64_t>& shape = s.program.tensors[s.x->index].shape;
  const std::vector<int64_t> strides = dense_strides(shape);
  for (size_t d = 0; d < shape.size(); ++d) {
    const IndexForm form = index_form(s.x->args[d]);
    const int bare = s.x->args[d]->op == ExprOp::kAxis ? s.x->args[d]->index : -1;
    GroupedChannels channels;
    if (bare >= 0 && s.in_w(bare)) {
      if (roles->channel_stride != 0) return false;
      roles->channel_stride = strides[d];
      if (s.is_reduced(bare)) {
        roles->in_channel = bare;
      } else {
        roles->out_channel = bare;
        roles->groups = s.extent(bare);
      }
    } else if (bare >= 0 && roles->batch < 0 && d == 0) {
      roles->batch = bare;
      roles->batch_stride = strides[d];
    } else if (form.affine && !transposed &&
               add_window(s, form, shape[d], strides[d], c, w_y_strides)) {
      continue;
    } else if (transposed && add_transposed_window(s, s.x->args[d], shape[d], strides[d], c,
                                                   &conditions, w_y_strides)) {
      continue;
    } else if (!form.affine && grouped_channels(s, s.x->args[d], shape[d], &channels)) {
      roles->channel_stride = strides[d];
      roles->in_channel = channels.in;
      roles->out_channel = channels.out;
      roles->groups = channels.groups;
    } else {
      return false;
    }
  }
  for (int axis : s.w_axes)                // dense: the spatial axis that only W has
    if (!s.is_reduced(axis) && roles->out_channel < 0) roles->out_channel = axis;
  return roles->out_channel >= 0 && !c->in.empty() && roles->channel_stride != 0 &&
         conditions.empty();
}

}  // namespace

PeerCase match_convolution(const Program& program, const Flow& flow, const Product& product) {
  Shape s{program, flow, program.tensors[flow.source], nullptr, nullptr, {}};
  for (const Expr& operand : {product.left, product.right}) {
    Expr read = operand;
    if (read->op == ExprOp::kPad) {
      const Expr& fill = read->args[1];
      if (fill->op != ExprOp::kConst || fill->number != 0) return {};
      read = read->args[0];
    }
    if (read->op != ExprOp::kRead || program.tensors[read->index].role != Role::kInput) return {};
    const std::vector<int> axes = bare_axes(*read);
    const bool bare = std::find(axes.begin(), axes.end(), -1) == axes.end();
    if (bare && operand->op == ExprOp::kRead && s.w == nullptr) {
      s.w = read.get();
      s.w_axes = axes;
    } else {
      s.x = read.get();
    }
  }
  if (s.x == nullptr || s.w == nullptr) return {};

  PeerConvolution c;
  Roles roles;
  std::vector<std::pair<int64_t, int64_t>> w_y_strides;
  std::vector<Expr> conditions;
  if (product.condition) add_conditions(product.condition, &conditions);
  if (!assign_roles(s, std::move(conditions), &roles, &c, &w_y_strides)) return {};
  const std::optional<KnownEpilogue> epilogue =
      known_epilogue(program, flow, roles.out_channel);
  if (!epilogue || epilogue->kind == PeerEpilogue::kSoftmax) return {};

  c.batch = roles.batch < 0 ? 1 : s.extent(roles.batch);
  c.groups = roles.groups;
  c.out_channels = s.extent(roles.out_channel) / c.groups;
  c.in_channels = roles.in_channel < 0 ? 1 : s.extent(roles.in_channel);
  const int64_t wo = w_stride(s, roles.out_channel), yo = y_stride(s, roles.out_channel);
  c.x.argument = argument_of(program, s.x->index);
  c.x.strides.insert(c.x.strides.begin(), {roles.batch_stride, roles.channel_stride});
  c.y.argument = argument_of(program, flow.output);
  c.y.strides = {roles.batch < 0 ? 0 : y_stride(s, roles.batch), yo};
  c.w.argument = argument_of(program, s.w->index);
  c.w.is_const = program.tensors[s.w->index].is_const;
  c.w.strides = {wo * c.out_channels, wo,
                 roles.in_channel < 0 ? 1 : w_stride(s, roles.in_channel)};
  for (const auto& [w, y] : w_y_strides) {
    c.w.strides.push_back(w);
    c.y.strides.push_back(y);
  }
  c.epilogue = epilogue->kind;
  if (epilogue->scale >= 0) c.scale = {argument_of(program, epilogue->scale), {1}};
  if (epilogue->bias >= 0) c.bias = {argument_of(program, epilogue->bias), {1}};
  return c;
}

}  // namespace lw
