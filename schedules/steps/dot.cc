// dot(C, k; 4)
//   before  C[i: 8, j: 16, k: 100 sum]      after  C[...], dot products of 4 along k
// Where the register tile unrolls k, each 4 of its points that follow each other are taken by one
// instruction of the target, which must have one for the types of C's factors; the rest of a range
// that 4 does not divide are multiply-adds. The operand that follows the lanes should be staged in
// groups (stage's fifth and sixth number), as one load is then one operand.
#include "schedules/domains.h"
#include "schedules/dot.h"
#include "schedules/legality.h"
#include "src/base/check.h"
#include "src/base/message.h"

namespace lw {
namespace {

// What the stage's term multiplies, for messages.
std::string product_text(const Expr& term) {
  const Expr* e = &term;
  while ((*e)->op == ExprOp::kSelect) e = &(*e)->args[1];
  if ((*e)->op != ExprOp::kMul) return "its terms";
  const auto type = [](const Expr& factor) {
    const bool cast = factor->op == ExprOp::kCast;
    return std::string(type_name(cast ? factor->args[0]->type : factor->type));
  };
  return concat(type((*e)->args[0]), " by ", type((*e)->args[1]), " into ", type_name((*e)->type));
}

absl::Status apply_dot(Nest& nest, const Step& step) {
  RETURN_IF_ERROR(expect(step, {2, 2, 1, 1}));
  ASSIGN_OR_RETURN(const int stage, target_stage(nest, step));
  Stage& s = nest.stages[stage];
  ASSIGN_OR_RETURN(const int position, loop_position(s, step.names[1]));
  const Loop& loop = s.loops[position];
  const Tensor& tensor = nest.program->tensors[s.tensor];
  if (s.copy_of >= 0 || tensor.reduce != Reduce::kSum)
    return infeasible(concat(s.name, " is no sum"));
  if (!s.axis_value.empty()) return infeasible(concat(s.name, " has fused axes"));
  if (loop.parts.size() != 1 || loop.parts[0].tile != 1 || !is_reduction(s, loop)) {
    return infeasible(concat(loop.name, " does not run over single points of a reduction"));
  }
  const Expr term = effective_body(nest, stage);
  const std::optional<DotFactors> factors = dot_factors(*nest.target, term, tensor.type);
  if (!factors || factors->atom->group != step.numbers[0]) {
    return infeasible(concat(nest.target->name, " has no dot product of ", step.numbers[0], ": ",
                             product_text(term)));
  }
  const int64_t lanes = stage_lanes(nest, stage) * step.numbers[0];
  if (lanes > register_file(*nest.target).most_lanes) {
    return infeasible(concat("no vector has ", lanes, " lanes"));
  }
  s.dot_axis = loop.parts[0].axis;
  s.dot_group = step.numbers[0];
  return check_legal(nest, stage);
}

std::vector<Decision> dot_domain(const Nest& nest, const Step& step) {
  const absl::StatusOr<int> stage = target_stage(nest, step);
  if (!stage.ok() || nest.stages[*stage].copy_of >= 0) return {};
  const std::optional<DotFactors> factors =
      dot_factors(*nest.target, effective_body(nest, *stage),
                  nest.program->tensors[nest.stages[*stage].tensor].type);
  if (!factors) return {};
  return {{factors->atom->group}};
}

}  // namespace

const StepKind& dot() {
  static constexpr StepKind kind = {"dot", 1, apply_dot, dot_domain};
  return kind;
}

}  // namespace lw
