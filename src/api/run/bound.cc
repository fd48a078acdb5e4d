// The bound of a task, by rates that are measured beside the time that they judge, or now.
#include "src/api/run/devices.h"
#include "src/api/task.h"
#include "src/base/check.h"
#include "src/expr/expr.h"
#include "src/measure/environment.h"
#include "src/measure/local.h"
#include "src/measure/machine/limits.h"
#include "src/measure/npu/simulated.h"
#include "src/measure/simt/common/device_target.h"

namespace lw {
namespace {

// A program on the task's target.
struct Judged {
  const Task* task;
  std::shared_ptr<const Program> program;
  Work work;
};

Judged judged(const Task& task, std::shared_ptr<const Program> program) {
  return {&task, program, count_work(*program)};
}

// What a schedule computes: Winograd's algorithm is another program, of fewer products and its
// transforms.
std::shared_ptr<const Program> computed_by(const Task& task, std::string_view trace) {
  if (!task.start().winograd) return task.program();
  const absl::StatusOr<Choice> choice = choose_trace(task, trace);
  return choice.ok() ? choice->nest->program : task.program();
}

absl::StatusOr<Limits> limits_of(const Judged& judged, double budget_s) {
  const Task& task = *judged.task;
  const absl::StatusOr<RunsOn> device = find_device(task);
  if (device.ok() && *device == RunsOn::kSimulator) return simulated_limits(*task.target());
  if (device.ok() && *device == RunsOn::kEstimate) {
    return nominal_limits(*judged.program, judged.work, *task.target(),
                          units_of(*task.target()));
  }
  if (device.ok() && *device == RunsOn::kDriver) {
    ASSIGN_OR_RETURN(const int units, driven_units(*task.target()));
    return nominal_limits(*judged.program, judged.work, *task.target(), units);
  }
  if (device.ok() && *device == RunsOn::kEmulator) {
    return nominal_limits(*judged.program, judged.work, *task.target(), task.threads());
  }
  return measure_limits(*judged.program, judged.work, *task.target(), task.threads(), budget_s);
}

absl::StatusOr<Bound> measure_beside(const Judged& judged, double time_us, double budget_s) {
  ASSIGN_OR_RETURN(Limits limits, limits_of(judged, budget_s));
  const Target& target = *judged.task->target();
  for (int attempt = 0; attempt < 3; ++attempt) {
    if (find_bound(judged.work, target, limits).bound_us <= time_us) break;
    budget_s *= 3;
    ASSIGN_OR_RETURN(const Limits again, limits_of(judged, budget_s));
    limits = larger(limits, again);
  }
  return find_bound(judged.work, target, limits);
}

}  // namespace

absl::StatusOr<Bound> measure_bound(const Task& task, double budget_s) {
  const Judged program = judged(task, task.program());
  ASSIGN_OR_RETURN(const Limits limits, limits_of(program, budget_s));
  return find_bound(program.work, *task.target(), limits);
}

absl::StatusOr<Bound> measure_bound_beside(const Task& task, const Choice& choice, double time_us,
                                           double budget_s) {
  return measure_beside(judged(task, choice.nest->program), time_us, budget_s);
}

absl::StatusOr<Bound> bound_beside(const Task& task, const Measurement& measurement,
                                   double budget_s) {
  const Judged program = judged(task, computed_by(task, measurement.trace));
  const std::optional<Limits> limits = parse_environment(measurement.environment).limits;
  // Rates of what the direct sum needs say nothing of another program's.
  const bool same = program.program == task.program();
  if (same && limits && limits->peak_gflops > 0 && limits->bandwidth_gbytes > 0) {
    const Bound bound = find_bound(program.work, *task.target(), *limits);
    if (bound.bound_us <= measurement.time_us) return bound;
  }
  return measure_beside(program, measurement.time_us, budget_s);
}

}  // namespace lw
