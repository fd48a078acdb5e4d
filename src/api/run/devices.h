// Where tasks run, of the machines that are here, and what their times are worth.
#pragma once

#include "absl/status/statusor.h"
#include "loopwright/bounds.h"
#include "src/api/task.h"

namespace lw {

struct Measurement;
struct Simulation;

// Whether that much memory is enough to measure it. kInvalidArgument: how much it takes.
absl::Status check_measurable(const Program& program, double present);

// Where the task's kernels can run: in this process, or, being for another architecture, under an
// emulator (measure/cpu/emulator.h), where they are verified but their times are estimates, or on a
// machine that is simulated here (measure/npu), whose times are exact, or on a device that a driver of
// this machine has (measure/simt, measure/cuda), or, being for a GPU that is not here, nowhere: times
// are estimates, and the emulator of many threads judges results (measure/cuda/estimated.h). Errors
// as check_runs_here's; kNotFound also says what the emulator lacks.
enum class RunsOn { kHost, kEmulator, kSimulator, kDriver, kEstimate };
absl::StatusOr<RunsOn> find_device(const Task& task);
// Of the times that are had there.
TimeKind time_kind(RunsOn device);

// One call, watched; errors also as build's. REQUIRES: the target is simulated here.
absl::StatusOr<Simulation> simulate(const Task& task, const Choice& choice);

// measure_bound_beside() of a stored measurement: by the rates that it carries (a finalist), if
// credible.
absl::StatusOr<Bound> bound_beside(const Task& task, const Measurement& measurement,
                                   double budget_s = 0.05);

}  // namespace lw
