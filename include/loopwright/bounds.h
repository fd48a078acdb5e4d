// What a program's time is judged by on a machine: the largest of a few named limits, each of which
// no implementation can be below.
//
//   ASSIGN_OR_RETURN(Bound bound, measure_bound(task));
//   printf("%.1f us, set by %s\n", bound.bound_us, bound.set_by().name.c_str());
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lw {

struct Choice;
class Task;

// Operations on data, a multiply-add 2. `useful`: those that every implementation must execute.
// `counted`: every different operation of a body at every point of its domain; the step of a
// reduction is one.
struct Flops {
  double useful = 0, counted = 0;
};

// A time that the program cannot be below.
struct TimeLimit {
  std::string name;                        // "compute", "memory", "instructions"
  double us = 0;
  std::string by;                          // "236 GFLOP/s", "142 GB/s", "exp f32"
};

struct Bound {
  Flops flops;
  double bytes = 0;                        // compulsory
  double peak_gflops = 0, bandwidth_gbytes = 0;
  double bound_us = 0;                     // the largest of:
  std::vector<TimeLimit> limits;           // largest first; never empty
  const TimeLimit& set_by() const { return limits.front(); }
};

// The bound of the program, by rates that are measured now: call it beside the timing that it
// judges. For a target that is emulated here: by its data, as the estimates that it judges.
absl::StatusOr<Bound> measure_bound(const Task& task, double budget_s = 0.05);
// The same beside the measured time of a schedule, of what that computes: by Winograd's algorithm
// its own multiplications and transforms. A bound above it means that one of the two is wrong,
// mostly the bound on a machine that was disturbed just then: it is measured again, longer, a few
// times. What is still above then is for the caller to say.
absl::StatusOr<Bound> measure_bound_beside(const Task& task, const Choice& choice, double time_us,
                                           double budget_s = 0.05);

}  // namespace lw
