// What tasks and choices (loopwright/task.h) are made of, and what our own code asks of them.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "loopwright/bounds.h"
#include "loopwright/task.h"
#include "schedules/nest.h"
#include "tuner_db/key_terms.h"
#include "tuner_db/store.h"

namespace lw {

struct Artifact;
struct Simulation;

struct Task::Parts {
  std::shared_ptr<const Program> program;
  std::shared_ptr<const Target> target;
  const Backend* backend = nullptr;
  Nest start;
  Key key;
  WorkloadRow workload;
};

absl::StatusOr<Task> make_task(Program program, const std::string& words, Target target,
                               int threads);
// The same task with what its schedules may do, under another key, or called by other words.
Task with_objective(const Task& task, Objective objective);
Task with_key(const Task& task, const Key& key);
Task with_words(const Task& task, const std::string& words);

// The program of a stored workload, as it is kept or from the words it was first asked for with;
// kNotFound when these no longer give it (its file is gone or has changed).
absl::StatusOr<Program> reload_program(const WorkloadRow& row);

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

// Puts the rows that the task's measurements refer to; done by tune_task.
absl::Status put_task(Store& store, const Task& task);

absl::StatusOr<Artifact> build(const Task& task, const Choice& choice);
// One call, watched; errors also as build's. REQUIRES: the target is simulated here.
absl::StatusOr<Simulation> simulate(const Task& task, const Choice& choice);

// measure_bound_beside() of a stored measurement: by the rates that it carries (a finalist), if
// credible.
absl::StatusOr<Bound> bound_beside(const Task& task, const Measurement& measurement,
                                   double budget_s = 0.05);

}  // namespace lw
