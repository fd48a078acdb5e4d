#include "schedules/npu/phases.h"

#include <algorithm>
#include <optional>

#include "schedules/access.h"
#include "schedules/npu/chosen.h"
#include "schedules/npu/index_steps.h"
#include "schedules/npu/windows.h"
#include "schedules/window.h"
#include "src/expr/expr.h"
#include "src/expr/scalar.h"

namespace lw {
namespace {

// Calls `use` with every condition of a conjunction.
template <class Use>
void for_each_condition(const Expr& e, const Use& use) {
  if (e->op != ExprOp::kAnd) return use(e);
  for (const Expr& side : e->args) for_each_condition(side, use);
}

// Whether `index % n == number` at every point of the stage.
bool always_holds(const Nest& nest, int stage, const ExprNode& condition) {
  if (modulus_of(condition) < 2 || condition.args[1]->op != ExprOp::kConst) return false;
  const std::optional<IndexSteps> rest = index_steps(nest, stage, condition.args[0]);
  if (!rest || rest->begin != condition.args[1]->integer) return false;
  const std::vector<NestAxis>& axes = nest.stages[stage].axes;
  for (size_t a = 0; a < axes.size(); ++a) {
    if (rest->steps[a] != 0 && axes[a].extent > 1) return false;
  }
  return true;
}

// axis - sum + offset; none: something else.
std::optional<TapAxes> taps_of(const Expr& index, size_t rank, int64_t n) {
  const IndexForm form = index_form(index);
  if (!form.affine || form.gather || form.terms.size() != 2) return std::nullopt;
  TapAxes taps = {-1, -1, n, form.constant};
  for (const IndexForm::Term& term : form.terms) {
    const bool sum = static_cast<size_t>(term.axis) >= rank;
    if (term.factor != (sum ? -1 : 1)) return std::nullopt;
    (sum ? taps.sum : taps.axis) = term.axis;
  }
  return taps.axis < 0 || taps.sum < 0 ? std::nullopt : std::optional(taps);
}

// The axis that runs over the remainders of a dimension: others move it by multiples of its extent.
// Not one of what a tile has: that is held as it lies.
int remainder_axis(const Stage& s, const NpuProduct& p, const std::vector<int64_t>& dim) {
  for (int a = 0; a < static_cast<int>(dim.size()); ++a) {
    const int64_t n = s.axes[a].extent;
    const bool inside = s.axes[a].reduction || a == p.row || a == p.outer_row || a == p.column;
    if (dim[a] != 1 || n < 2 || inside) continue;
    bool others = false, multiples = true;
    for (int o = 0; o < static_cast<int>(dim.size()); ++o) {
      if (o == a || dim[o] == 0) continue;
      others = true;
      multiples = multiples && dim[o] % n == 0;
    }
    if (others && multiples) return a;
  }
  return -1;
}

// Of an operand's or the result's dimensions.
struct Dims {
  std::vector<std::vector<int64_t>>& steps;
  std::vector<int64_t>&begin, &shape, &strides;
  std::vector<int>& of;                    // the tensor's
};

// The last dimension, of rows, stays one.
void separate(const Stage& s, const NpuProduct& p, const Dims& dims) {
  for (size_t d = dims.steps.size(); d-- > 1;) {
    const size_t whole = d - 1;
    const int axis = remainder_axis(s, p, dims.steps[whole]);
    if (axis < 0) continue;
    const int64_t n = s.axes[axis].extent;
    std::vector<int64_t> rest(s.axes.size());
    rest[axis] = 1;
    const auto insert = [&](auto& list, auto value) {
      list.insert(list.begin() + static_cast<int64_t>(d), std::move(value));
    };
    for (int64_t& step : dims.steps[whole]) step /= n;
    insert(dims.steps, std::move(rest));
    insert(dims.begin, floor_mod(dims.begin[whole], n));
    dims.begin[whole] = floor_div(dims.begin[whole], n);
    insert(dims.shape, n);
    dims.shape[whole] = (dims.shape[whole] + n - 1) / n;
    insert(dims.strides, dims.strides[whole]);
    dims.strides[whole] *= n;
    insert(dims.of, dims.of[whole]);
  }
}

}  // namespace

std::vector<TapAxes> tap_axes(const Nest& nest, int stage) {
  const size_t rank = nest.program->tensors[nest.stages[stage].tensor].axes.size();
  std::vector<TapAxes> found;
  const auto add = [&](const Expr& index, int64_t n) {
    const std::optional<TapAxes> taps = taps_of(index, rank, n);
    if (!taps) return;
    const bool known = std::any_of(found.begin(), found.end(), [&](const TapAxes& other) {
      return other.axis == taps->axis || other.sum == taps->sum;
    });
    if (!known) found.push_back(*taps);
  };
  Expr body = effective_body(nest, stage);
  for (; body->op == ExprOp::kSelect && is_zero(*body->args[2]); body = body->args[1]) {
    for_each_condition(body->args[0], [&](const Expr& condition) {
      const int64_t n = modulus_of(*condition);
      if (n > 1 && is_zero(*condition->args[1])) add(condition->args[0]->args[0], n);
    });
  }
  for (const ExprNode* read : reads_in(body)) {
    for (const Expr& index : read->args) add(index, 1);
  }
  return found;
}

Expr chosen_body(const Nest& nest, int stage) {
  Expr body = effective_body(nest, stage);
  const Stage& s = nest.stages[stage];
  const bool own_axes = s.axis_value.empty();
  while (body->op == ExprOp::kSelect && is_zero(*body->args[2])) {
    bool always = true;
    for_each_condition(body->args[0], [&](const Expr& condition) {
      always = always && (always_holds(nest, stage, *condition) ||
                          (own_axes && is_read_where(*nest.program, s.tensor, condition)));
    });
    if (!always) break;
    body = body->args[1];
  }
  return body;
}

void separate_phases(const Stage& stage, NpuProduct& product) {
  if (stage.axis_value.empty()) return;
  NpuProduct& p = product;
  std::vector<int> of(p.b_steps.size());
  if (p.window.empty()) separate(stage, p, {p.b_steps, p.b_begin, p.b_shape, p.b_strides, of});
  separate(stage, p, {p.dst_steps, p.dst_begin, p.dst_shape, p.dst_strides, p.dst_dims});
}

std::vector<NpuProduct::Limit> limits_of(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  std::vector<NpuProduct::Limit> limits;
  if (s.axis_value.empty()) return limits;
  const Tensor& tensor = nest.program->tensors[s.tensor];
  const std::vector<int64_t> extents = axis_extents(tensor);
  for (size_t t = 0; t < extents.size(); ++t) {
    const std::optional<IndexSteps> value =
        index_steps(nest, stage, make_axis(static_cast<int>(t)));
    if (!value) continue;                  // a digit of fused axes is inside
    int64_t least = value->begin, most = value->begin;
    for (size_t a = 0; a < s.axes.size(); ++a) {
      const int64_t last = value->steps[a] * (s.axes[a].extent - 1);
      (last < 0 ? least : most) += last;
    }
    if (least >= 0 && most < extents[t]) continue;
    limits.push_back({value->steps, value->begin, extents[t], t >= tensor.axes.size()});
  }
  return limits;
}

Positions inside(const Positions& positions, int64_t begin, int64_t step, int64_t size) {
  const int64_t end = size - 1 - begin;
  const int64_t least = step > 0 ? -floor_div(begin, step) : -floor_div(end, -step),
                most = step > 0 ? floor_div(end, step) : floor_div(begin, -step);
  const int64_t first = std::max(positions.first, least);
  const int64_t last = std::min(positions.first + positions.count - 1, most);
  return {first, std::max<int64_t>(0, last - first + 1)};
}

}  // namespace lw
