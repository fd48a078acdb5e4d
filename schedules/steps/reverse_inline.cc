// reverse_inline(D, C)
//   before  C[i, j] = sum[k](..)          after  C[..]
//           D[i, j] = max(C[i, j] + b[j], 0)     D[..] epilogue of C
// A pure map that reads C only at its own point is applied to C's register tile before it is
// stored, after the epilogues that C has. Whatever else it reads must be complete by then. On an NPU
// C's results are finished by the vector engine where they are held, and never stored.
#include <algorithm>

#include "schedules/legality.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/expr.h"

namespace lw {
namespace {

// Whether `tensor` is computed before the register tile of `host` begins.
bool complete_before(const Nest& nest, int tensor, int host) {
  int source = stage_of_tensor(nest, tensor);
  if (source < 0) return true;  // an input
  if (nest.stages[source].place == Place::kEpilogue) source = nest.stages[source].host;
  const Stage& s = nest.stages[source];
  if (source >= host) return false;
  if (s.place == Place::kRoot || s.place == Place::kPrepack) return true;
  return s.place == Place::kAt &&
         depth_within(nest, host, s.host) > find_loop(nest.stages[s.host], s.loop);
}

// What the stage reads, and the reductions that are inlined in it, but these.
std::vector<int> needed(const Nest& nest, int stage) {
  std::vector<int> tensors = body_reads(nest, stage);
  for (int s = 0; s < static_cast<int>(nest.stages.size()); ++s) {
    if (nest.stages[s].host != stage || nest.stages[s].place != Place::kInlined) continue;
    const std::vector<int> more = body_reads(nest, s);
    tensors.insert(tensors.end(), more.begin(), more.end());
  }
  std::erase_if(tensors, [&](int tensor) {
    const int source = stage_of_tensor(nest, tensor);
    return source >= 0 && nest.stages[source].host == stage &&
           nest.stages[source].place == Place::kInlined;
  });
  return tensors;
}

absl::Status check_reads(const Nest& nest, int consumer, int host) {
  const Stage& h = nest.stages[host];
  std::vector<int> tile = {h.tensor};  // what the register tile holds
  for (int e : h.epilogue) tile.push_back(nest.stages[e].tensor);
  const std::vector<int64_t>& shape = nest.program->tensors[nest.stages[consumer].tensor].shape;
  bool any = false, identity = true;
  visit(effective_body(nest, consumer), [&](const ExprNode& e) {
    if (e.op != ExprOp::kRead || std::find(tile.begin(), tile.end(), e.index) == tile.end()) return;
    any = true;
    identity = identity && reads_own_point(e);
  });
  if (!any) return infeasible(concat(nest.stages[consumer].name, " does not read ", h.name));
  if (nest.program->tensors[h.tensor].shape != shape) {
    return infeasible(concat(nest.stages[consumer].name, " is of another shape than ", h.name));
  }
  if (!identity && nest.checks(Legality::kEpilogueIdentity)) {
    return infeasible(concat(nest.stages[consumer].name, " reads ", h.name, " at other points"));
  }
  for (int tensor : needed(nest, consumer)) {
    if (std::find(tile.begin(), tile.end(), tensor) != tile.end()) continue;
    if (!complete_before(nest, tensor, host)) {
      return infeasible(
          concat(nest.program->tensors[tensor].name, " is not complete when ", h.name, " is"));
    }
  }
  return absl::OkStatus();
}

absl::Status apply_reverse_inline(Nest& nest, const Step& step) {
  RETURN_IF_ERROR(expect(step, {2, 2, 0, 0}));
  ASSIGN_OR_RETURN(const int consumer, target_stage(nest, step));
  const int host = find_stage(nest, step.names[1]);
  if (host < 0 || host >= consumer)
    return infeasible(concat("no stage ", step.names[1], " before ", step.names[0]));
  Stage &c = nest.stages[consumer], &h = nest.stages[host];
  if (c.copy_of >= 0 || h.copy_of >= 0) return infeasible("a copy has no epilogue");
  if (h.place != Place::kRoot && h.place != Place::kAt)
    return infeasible(concat(h.name, " runs no loops of its own"));
  if (h.factored_axis >= 0) return infeasible(concat(h.name, " holds partial results"));
  if (c.place != Place::kRoot) return infeasible(concat(c.name, " has been placed"));
  if (nest.program->tensors[c.tensor].reduce != Reduce::kNone)
    return infeasible(concat(c.name, " is a reduction"));
  if (!c.epilogue.empty() || !c.copies.empty())
    return infeasible(concat(c.name, " hosts other stages"));
  for (const Stage& other : nest.stages) {
    if (other.place == Place::kAt && other.host == consumer)
      return infeasible(concat(c.name, " hosts ", other.name));
  }
  RETURN_IF_ERROR(check_reads(nest, consumer, host));
  c.place = Place::kEpilogue;
  c.host = host;
  // The fused stage ends in C's store from now on.
  if (c.non_temporal) h.non_temporal = true;
  h.epilogue.push_back(consumer);
  return check_places(nest);
}

}  // namespace

const StepKind& reverse_inline() {
  static constexpr StepKind kind = {"reverse_inline", 1, apply_reverse_inline, nullptr, nullptr};
  return kind;
}

}  // namespace lw
