#include "schedules/space/draft.h"

#include <algorithm>

#include "schedules/costs.h"
#include "schedules/dot.h"
#include "src/base/check.h"
#include "src/base/message.h"

namespace lw::rules {

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
  const StepKind* step = find_step(kind);
  if (!serves(*draft.nest.target, step->family)) return;
  attempt(draft, [&](Draft& next) { open(next, kind, names, numbers); });
}

bool is_map(const Nest& nest, int stage) {
  return nest.program->tensors[nest.stages[stage].tensor].reduce == Reduce::kNone;
}

double body_cost(const Nest& nest, int stage) {
  const Costs& machine = costs(*nest.target);
  double cost = 0;
  visit(effective_body(nest, stage),
        [&](const ExprNode& node) { cost += machine.of(node.op).weight; });
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

namespace {

bool has_dot_products(const Nest& nest) {
  for (int s = 0; s < static_cast<int>(nest.stages.size()); ++s) {
    const Place place = nest.stages[s].place;
    if (place == Place::kInlined || place == Place::kEpilogue) continue;
    for (int a = 0; a < static_cast<int>(nest.stages[s].axes.size()); ++a) {
      if (dot_group(nest, s, a) > 1) return true;
    }
  }
  return false;
}

}  // namespace

std::optional<Draft> with_dot_products(const Draft& draft) {
  if (!has_dot_products(draft.nest)) return std::nullopt;
  Draft dot = draft;
  dot.name = "dot products";
  dot.dot_products = dot.chosen = true;
  return dot;
}

bool elementwise(const Nest& nest, int stage) {
  const Tensor& tensor = nest.program->tensors[nest.stages[stage].tensor];
  if (tensor.axes.size() < 2 || !nest.stages[stage].epilogue.empty()) return false;
  for (int t : body_reads(nest, stage)) {
    if (nest.program->tensors[t].shape != tensor.shape) return false;
    if (!reads_at_prefix(nest, stage, t, static_cast<int>(tensor.axes.size()))) return false;
  }
  return true;
}

void fuse_all(Draft& d, const std::string& name) {
  while (d.nest.stages[find_stage(d.nest, name)].loops.size() > 1 && !d.failed) {
    const Stage& s = d.nest.stages[find_stage(d.nest, name)];
    fixed(d, "fuse", {name, s.loops[0].name, s.loops[1].name});
  }
}

std::string name_of_copy(const Nest& nest, const std::string& stage, const std::string& tensor) {
  const bool several = readers(nest, find_tensor(*nest.program, tensor)).size() > 1;
  return concat(tensor, ".copy", several ? concat(":", stage) : "");
}

void copy_for_group(Draft& d, const std::string& stage, const std::string& tensor) {
  const std::string copy = name_of_copy(d.nest, stage, tensor);
  optional(d, "stage", {stage, tensor}, {-1, -1, 0});
  optional(d, "share", {copy}, {0});
  optional(d, "parallel", {copy}, {0, 0});
  optional(d, "items", {copy}, {0, 0});
}

std::vector<Address> operands(const Nest& nest, int stage) {
  std::vector<Address> list;
  for (const Address& address : addresses(nest, stage)) {
    const bool again = std::any_of(list.begin(), list.end(), [&](const Address& seen) {
      return seen.tensor == address.tensor;
    });
    const size_t rank = nest.program->tensors[address.tensor].shape.size();
    if (!again && address.affine && rank >= 2) list.push_back(address);
  }
  return list;
}

std::string loop_of(const Stage& s, int axis) {
  for (const Loop& loop : s.loops) {
    if (loop.parts.size() == 1 && loop.parts[0].axis == axis && loop.parts[0].tile == 1)
      return loop.name;
  }
  return {};
}

}  // namespace lw::rules
