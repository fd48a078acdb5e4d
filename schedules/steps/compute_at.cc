// compute_at(P, C; 1)
//   before  P[i: 64, j: 64]      after  P[i: 64, j: 64] at C i
//             ...                         ...
//           C[i: 64, j: 64]             C[i: 64, j: 64]
//             i: 64                       i: 64          <- each iteration computes the part of P
//               j: 64                       j: 64           that it reads
// The number is how many of C's loops enclose P; 0: the root. All readers of P must stand inside.
#include "schedules/domains.h"
#include "schedules/legality.h"
#include "src/base/check.h"
#include "src/base/message.h"

namespace lw {
namespace {

absl::Status place_at(Nest& nest, int producer, int host, int64_t depth) {
  Stage& p = nest.stages[producer];
  const Stage& h = nest.stages[host];
  if (depth < 0 || depth > tile_begin(h)) {
    return infeasible(concat("no place at depth ", depth, " of ", h.name));
  }
  p.place = depth == 0 ? Place::kRoot : Place::kAt;
  p.host = depth == 0 ? -1 : host;
  p.loop = depth == 0 ? "" : h.loops[depth - 1].name;
  return check_places(nest);
}

absl::Status check_movable(const Nest& nest, int producer, int host) {
  const Stage& p = nest.stages[producer];
  if (p.copy_of >= 0) return infeasible(concat(p.name, " is a copy"));
  // What one iteration reads is a box over the tensor's axes, which the loops must run over.
  if (!p.axis_value.empty()) return infeasible(concat(p.name, " has fused axes"));
  if (p.along >= 0) return infeasible(concat(p.name, " is dealt along a loop"));
  if (p.factored_axis >= 0) return infeasible(concat(p.name, " has partial results"));
  if (p.place == Place::kPrepack || nest.stages[host].place == Place::kPrepack)
    return infeasible("what is prepacked stays whole");
  if (producer >= host)
    return infeasible(concat(p.name, " is not computed before ", nest.stages[host].name));
  if (nest.stages[host].copy_of >= 0) return infeasible("a copy computes nothing");
  return absl::OkStatus();
}

absl::StatusOr<int> host_stage(const Nest& nest, const Step& step) {
  const int host = find_stage(nest, step.names[1]);
  if (host < 0) return infeasible(concat("no stage ", step.names[1]));
  const Place place = nest.stages[host].place;
  if (place == Place::kInlined || place == Place::kEpilogue) {
    return infeasible(concat(step.names[1], " runs no loops of its own"));
  }
  return host;
}

absl::Status apply_compute_at(Nest& nest, const Step& step) {
  RETURN_IF_ERROR(expect(step, {2, 2, 1, 1}));
  ASSIGN_OR_RETURN(const int producer, target_stage(nest, step));
  ASSIGN_OR_RETURN(const int host, host_stage(nest, step));
  RETURN_IF_ERROR(check_movable(nest, producer, host));
  return place_at(nest, producer, host, step.numbers[0]);
}

std::vector<Decision> compute_at_domain(const Nest& nest, const Step& step) {
  if (step.names.size() != 2) return {};
  const absl::StatusOr<int> producer = target_stage(nest, step), host = host_stage(nest, step);
  if (!producer.ok() || !host.ok() || !check_movable(nest, *producer, *host).ok()) return {};
  std::vector<Decision> domain;
  Nest moved = nest;
  for (int64_t depth = 0; depth <= tile_begin(nest.stages[*host]); ++depth) {
    if (place_at(moved, *producer, *host, depth).ok()) domain.push_back({depth});
  }
  return domain;
}

}  // namespace

const StepKind& compute_at() {
  static constexpr StepKind kind = {"compute_at", 1, apply_compute_at, compute_at_domain};
  return kind;
}

}  // namespace lw
