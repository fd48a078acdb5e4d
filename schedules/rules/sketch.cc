#include "schedules/rules/sketch.h"

#include <algorithm>

#include "schedules/dot.h"
#include "schedules/legality.h"

namespace lw::rules {
namespace {

struct Walk {
  Visited plain, guarded;
};

void add_accesses(const Nest& nest, const Expr& expr, size_t axes, bool guarded, Walk& walk,
                  std::vector<Access>& list) {
  if (!(guarded ? walk.guarded : walk.plain).first(expr)) return;
  guarded = guarded || expr->op == ExprOp::kPad || expr->op == ExprOp::kSelect;
  if (expr->op == ExprOp::kRead) {
    const Tensor& tensor = nest.program->tensors[expr->index];
    Access access{expr->index, std::vector<int64_t>(axes, 0), true, guarded};
    int64_t stride = 1;
    for (size_t d = tensor.shape.size(); d-- > 0;) {
      access.affine = coefficients(expr->args[d], access.stride, stride) && access.affine;
      stride *= tensor.shape[d];
    }
    list.push_back(std::move(access));
  }
  for (const Expr& arg : expr->args) add_accesses(nest, arg, axes, guarded, walk, list);
}

double op_cost(ExprOp op) {
  switch (op) {
    case ExprOp::kDiv: case ExprOp::kMod: case ExprOp::kSqrt: case ExprOp::kRsqrt: return 8;
    case ExprOp::kExp: case ExprOp::kSigmoid: return 12;
    case ExprOp::kLog: case ExprOp::kTanh: case ExprOp::kErf: return 20;
    case ExprOp::kPow: return 40;
    case ExprOp::kConst: case ExprOp::kAxis: return 0;
    default: return 1;
  }
}

}  // namespace

void fixed(Draft& draft, std::string_view kind, std::vector<std::string> names, Decision numbers) {
  Step step{find_step(kind), {names.begin(), names.end()}, std::move(numbers)};
  if (draft.failed || step.kind == nullptr || !apply(draft.nest, step).ok()) {
    draft.failed = true;
    return;
  }
  draft.sketch.steps.push_back(std::move(step));
  draft.sketch.open.push_back(false);
}

void open(Draft& draft, std::string_view kind, std::vector<std::string> names, Decision numbers) {
  Step step{find_step(kind), {names.begin(), names.end()}, std::move(numbers)};
  if (draft.failed || step.kind == nullptr || step.kind->domain == nullptr) {
    draft.failed = true;
    return;
  }
  if (draft.sketch.settled == nullptr) {
    draft.sketch.settled = std::make_shared<const Sketch::Settled>(
        Sketch::Settled{draft.program, draft.nest, draft.sketch.steps.size()});
  }
  const std::vector<Decision> domain = step.kind->domain(draft.nest, step);
  // Any decision that applies will do: only what later steps are named after matters here.
  const size_t middle = domain.size() / 2;
  for (size_t i = 0; i < domain.size(); ++i) {
    Step drawn = step;
    drawn.numbers = domain[(middle + i) % domain.size()];
    Nest next = draft.nest;
    if (!apply(next, drawn).ok()) continue;
    draft.nest = std::move(next);
    draft.sketch.steps.push_back(std::move(step));
    draft.sketch.open.push_back(true);
    return;
  }
  draft.failed = true;
}

std::vector<Access> accesses(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  Expr body = effective_body(nest, stage);
  if (!s.axis_value.empty()) body = substitute(body, s.axis_value);
  std::vector<Access> list;
  Walk walk;
  add_accesses(nest, body, s.axes.size(), false, walk, list);
  return list;
}

bool uses(const Access& access, int axis) { return access.stride[axis] != 0; }

bool reused(const Stage& stage, const Access& access) {
  for (size_t a = 0; a < stage.axes.size(); ++a) {
    const NestAxis& axis = stage.axes[a];
    if (!axis.reduction && axis.extent > 1 && !uses(access, static_cast<int>(a))) return true;
  }
  return false;
}

bool is_map(const Nest& nest, int stage) {
  return nest.program->tensors[nest.stages[stage].tensor].reduce == Reduce::kNone;
}

double body_cost(const Nest& nest, int stage) {
  double cost = 0;
  visit(effective_body(nest, stage), [&](const ExprNode& node) { cost += op_cost(node.op); });
  return cost;
}

int64_t dot_group(const Nest& nest, int stage, int axis) {
  const Stage& s = nest.stages[stage];
  const Tensor& tensor = nest.program->tensors[s.tensor];
  if (axis < 0 || !s.axes[axis].reduction || tensor.reduce != Reduce::kSum) return 1;
  if (!s.axis_value.empty()) return 1;
  const std::optional<DotFactors> factors =
      dot_factors(*nest.target, effective_body(nest, stage), tensor.type);
  return factors && s.axes[axis].extent >= factors->atom->group ? factors->atom->group : 1;
}

bool reads_at_prefix(const Nest& nest, int stage, int tensor, int dims) {
  bool prefix = true;
  visit(effective_body(nest, stage), [&](const ExprNode& node) {
    if (node.op != ExprOp::kRead || node.index != tensor) return;
    if (static_cast<int>(node.args.size()) < dims) prefix = false;
    for (int d = 0; prefix && d < dims; ++d) {
      prefix = node.args[d]->op == ExprOp::kAxis && node.args[d]->index == d;
    }
  });
  return prefix;
}

std::string loop_of(const Stage& s, int axis) {
  for (const Loop& loop : s.loops) {
    if (loop.parts.size() == 1 && loop.parts[0].axis == axis && loop.parts[0].tile == 1)
      return loop.name;
  }
  return {};
}

bool has_reuse(const Nest& nest, int stage) {
  if (is_map(nest, stage)) return false;
  const Stage& s = nest.stages[stage];
  for (const Access& access : accesses(nest, stage)) {
    bool reduces = false;
    for (size_t a = 0; a < s.axes.size(); ++a) {
      reduces = reduces || (s.axes[a].reduction && uses(access, static_cast<int>(a)));
    }
    if (reduces && reused(s, access)) return true;
  }
  return false;
}

}  // namespace lw::rules
