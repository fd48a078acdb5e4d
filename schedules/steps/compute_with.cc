// compute_with(P, Q; 1)
//   before  P[i: 64, j: 32 sum]      after  P[i: 64, j: 32 sum] with Q i.0
//             i: 64                           i: 64          <- of these as many as Q's iteration has
//               j: 32                           j: 32
//           Q[j: 32, i: 64 sum]             Q[j: 32, i: 64 sum]
//             i.0: 8 of 8                     i.0: 8 of 8
//               i.1: 8                          i.1: 8
//                 j: 32                           j: 32
// Two stages that go over one operand do so in one sweep: what the first has loaded is there for the
// second. The number is how many of Q's loops enclose P, all over one axis, which has as many points
// as an axis of P: the first such. P is kept whole; all that reads it else comes after Q.
#include "schedules/access.h"
#include "schedules/domains.h"
#include "schedules/legality.h"
#include "src/base/check.h"
#include "src/base/message.h"

namespace lw {
namespace {

struct Partners {
  int first, host;
};

absl::StatusOr<Partners> partners(const Nest& nest, const Step& step) {
  ASSIGN_OR_RETURN(const int first, target_stage(nest, step));
  const int host = find_stage(nest, step.names[1]);
  if (host < 0) return infeasible(concat("no stage ", step.names[1]));
  const Stage &s = nest.stages[first], &h = nest.stages[host];
  if (s.place != Place::kRoot || h.place != Place::kRoot) {
    return infeasible(concat(s.name, " and ", h.name, " are not both at the root"));
  }
  if (s.copy_of >= 0 || h.copy_of >= 0 || s.factored_axis >= 0) {
    return infeasible("copies and partial results stay where they are");
  }
  if (first >= host) return infeasible(concat(s.name, " is not computed before ", h.name));
  return Partners{first, host};
}

absl::Status place_with(Nest& nest, const Partners& p, int64_t depth) {
  Stage& s = nest.stages[p.first];
  const Stage& h = nest.stages[p.host];
  if (depth < 1 || depth > tile_begin(h)) {
    return infeasible(concat("no place at depth ", depth, " of ", h.name));
  }
  const Loop& loop = h.loops[depth - 1];
  const int64_t points = h.axes[loop.parts[0].axis].extent;
  s.along = -1;
  for (int a = static_cast<int>(s.axes.size()) - 1; a >= 0; --a) {
    if (!s.axes[a].reduction && s.axes[a].extent == points) s.along = a;
  }
  if (s.along < 0) return infeasible(concat(s.name, " has no axis of ", points, " points"));
  s.place = Place::kAt;
  s.host = p.host;
  s.loop = loop.name;
  return check_places(nest);
}

absl::Status apply_compute_with(Nest& nest, const Step& step) {
  RETURN_IF_ERROR(expect(step, {2, 2, 1, 1}));
  ASSIGN_OR_RETURN(const Partners p, partners(nest, step));
  return place_with(nest, p, step.numbers[0]);
}

std::vector<Decision> compute_with_domain(const Nest& nest, const Step& step) {
  if (step.names.size() != 2) return {};
  const absl::StatusOr<Partners> p = partners(nest, step);
  if (!p.ok()) return {};
  std::vector<Decision> domain;
  for (int64_t depth = 1; depth <= tile_begin(nest.stages[p->host]); ++depth) {
    Nest moved = nest;
    if (place_with(moved, *p, depth).ok()) domain.push_back({depth});
  }
  return domain;
}

}  // namespace

const StepKind& compute_with() {
  static constexpr StepKind kind = {"compute_with", 1, apply_compute_with, compute_with_domain,
                                     "cpu"};
  return kind;
}

}  // namespace lw
