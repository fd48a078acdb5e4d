// Tuning of tasks on this machine, alone and several that share one budget.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "src/api/task.h"
#include "src/search/search.h"

namespace lw {

struct LocalOptions;

// The task's Measurer on the device that find_device says: local (measure/local.h) or emulated
// (measure/emulated.h: its candidates must carry draft_us). `options` says what the task does not.
// The second oracle is its unscheduled kernel.
absl::StatusOr<std::unique_ptr<Measurer>> make_measurer(const Task& task, LocalOptions options);

// Searches, measures, verifies and stores; resumes from what the store has. `hooks` and `model` may
// be empty. kAlreadyExists: another process tunes this key. The calling thread must not be one of
// many (worker processes are forked).
absl::StatusOr<TuneResult> tune_task(const Task& task, Store& store, const SearchOptions& options,
                                     std::unique_ptr<Model> model = nullptr, TuneHooks hooks = {});

// Several tasks that share one budget: options.trials x tasks trials, never more, and
// options.seconds x tasks seconds go to the task with the largest expected gain per second
// (src/search/suite.h). Result i is member i's; equal tasks share one. Otherwise as tune_task, but
// what ends one task alone (no device, its key is another process's, no schedule, ...) is its
// result's `failure`; an error of the store ends all, with what was measured stored.
struct SuiteMember {
  Task task;
  double weight = 0;                       // calls; 0: not known, relative gains count
  std::unique_ptr<Model> model;            // may be empty
  std::function<void(const TuneProgress&)> progress;  // may be empty
};
absl::StatusOr<std::vector<TuneResult>> tune_tasks(std::vector<SuiteMember> members, Store& store,
                                                   const SearchOptions& options,
                                                   const TuneHooks& hooks);

}  // namespace lw
