#include "schedules/draft.h"

#include <algorithm>

#include "schedules/dot.h"
#include "schedules/legality.h"
#include "src/base/check.h"
#include "src/expr/bounds.h"
#include "src/expr/message.h"

namespace lw::rules {
namespace {

// factor * (floor(of / divisor) modulo `modulus`, where that is not 0).
struct Digit {
  Expr of;
  int64_t divisor = 1, modulus = 0, factor = 0;
};

bool by_constant(const Expr& e, ExprOp op) {
  return e->op == op && e->args[1]->op == ExprOp::kConst && e->args[1]->integer > 0;
}

Digit digit_of(const Expr& atom, int64_t factor) {
  Digit digit{atom, 1, 0, factor};
  if (by_constant(atom, ExprOp::kMod)) {
    digit.modulus = atom->args[1]->integer;
    digit.of = atom->args[0];
  }
  while (by_constant(digit.of, ExprOp::kDiv)) {
    if (__builtin_mul_overflow(digit.divisor, digit.of->args[1]->integer, &digit.divisor)) {
      return {atom, 1, 0, factor};
    }
    digit.of = digit.of->args[0];
  }
  return digit;
}

// Two digits of one number that follow each other are one: f / 12 * 12 + f / 3 % 4 * 3 is
// f / 3 * 3. Returns whether `high` continues `low`, which then is both.
bool join(Digit& low, const Digit& high) {
  if (low.modulus == 0 || !same(low.of, high.of)) return false;
  if (high.divisor % low.modulus != 0 || high.divisor / low.modulus != low.divisor) return false;
  if (high.factor % low.modulus != 0 || high.factor / low.modulus != low.factor) return false;
  if (__builtin_mul_overflow(low.modulus, high.modulus, &low.modulus)) return false;
  return true;
}

// The address of a read, in elements. An index that was flattened and is taken apart again comes
// together here.
bool add_address(const Expr& address, int64_t factor, std::vector<int64_t>& stride) {
  std::vector<Digit> digits;
  for (const Linear::Term& term : linear_form(address).terms) {
    digits.push_back(digit_of(term.atom, factor * term.factor));
  }
  bool affine = true;
  for (bool joined = true; joined;) {
    joined = false;
    for (size_t i = 0; i < digits.size() && !joined; ++i) {
      for (size_t j = 0; j < digits.size() && !joined; ++j) {
        if (i == j || !join(digits[i], digits[j])) continue;
        digits.erase(digits.begin() + static_cast<long>(j));
        joined = true;
      }
    }
  }
  for (const Digit& digit : digits) {
    const bool plain = digit.divisor == 1 && digit.modulus == 0;
    const Linear form = linear_form(digit.of);
    const bool sum = form.terms.size() != 1 || !same(form.terms[0].atom, digit.of);
    if (plain && sum) affine = add_address(digit.of, digit.factor, stride) && affine;
    else affine = coefficients(digit.of, stride, digit.factor) && plain && affine;
  }
  return affine;
}

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
    Expr address = make_int(Type::kI64, 0);
    int64_t stride = 1;
    for (size_t d = tensor.shape.size(); d-- > 0;) {
      address = make_binary(ExprOp::kAdd, address,
                            make_binary(ExprOp::kMul, expr->args[d],
                                        make_int(Type::kI64, stride)));
      stride *= tensor.shape[d];
    }
    access.affine = add_address(address, 1, access.stride);
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
  if (draft.failed) return;
  Step step{find_step(kind), {names.begin(), names.end()}, std::move(numbers)};
  CHECK(step.kind != nullptr);
  if (const absl::Status status = apply(draft.nest, step); !status.ok()) {
    draft.failed = true;
    draft.why = concat(to_text(step), " is ", std::string(status.message()));
    return;
  }
  draft.sketch.steps.push_back(std::move(step));
  draft.sketch.open.push_back(false);
}

void open(Draft& draft, std::string_view kind, std::vector<std::string> names, Decision numbers) {
  if (draft.failed) return;
  Step step{find_step(kind), {names.begin(), names.end()}, std::move(numbers)};
  CHECK(step.kind != nullptr && step.kind->domain != nullptr);
  if (draft.sketch.settled == nullptr) {
    draft.sketch.settled = std::make_shared<const Sketch::Settled>(
        Sketch::Settled{draft.program, draft.nest, draft.sketch.steps.size()});
  }
  const std::vector<Decision> domain = step.kind->domain(draft.nest, step);
  // Any decision that applies will do: only what later steps are named after matters here.
  const size_t middle = domain.size() / 2;
  absl::Status status = infeasible("no decision is possible");
  for (size_t i = 0; i < domain.size(); ++i) {
    Step drawn = step;
    drawn.numbers = domain[(middle + i) % domain.size()];
    Nest next = draft.nest;
    status = apply(next, drawn);
    if (!status.ok()) continue;
    draft.nest = std::move(next);
    draft.sketch.steps.push_back(std::move(step));
    draft.sketch.open.push_back(true);
    return;
  }
  draft.failed = true;
  draft.why = concat(to_text(step), " is ", std::string(status.message()));
}

void optional(Draft& draft, std::string_view kind, std::vector<std::string> names,
              Decision numbers) {
  attempt(draft, [&](Draft& next) { open(next, kind, names, numbers); });
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
