// Searching for a schedule: what is measured goes into a store, from which an interrupted search
// resumes and choose() (task.h) takes the best.
//
//   ASSIGN_OR_RETURN(Task task, make_task({"matmul", "M=512"}, {}));
//   ASSIGN_OR_RETURN(std::shared_ptr<Store> store, open_measurements("loopwright.db"));
//   ASSIGN_OR_RETURN(Choice choice, tune(task, *store, {.trials = 100}));
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace lw {

struct Choice;
class Task;

// What is measured, append-only, in a SQLite file, which is made where there is none, or at
// "postgres://USER@HOST:PORT/NAME"; "": in memory. Thread-safe; one that was opened before a fork
// must not be used in the child. Errors name the file and what to do: kFailedPrecondition: it is
// newer than this program, or not ours; kDataLoss: damaged; kUnavailable: locked by another
// process, or the disk fails; kResourceExhausted: full; kPermissionDenied: read-only.
class Store;
absl::StatusOr<std::shared_ptr<Store>> open_measurements(const std::string& where);

struct TuningOptions {
  uint64_t seed = 1;
  int trials = 200;                        // stored ones of the same key count; neither the
                                           // zero-trial answer nor the finalists' second
                                           // measurement is one
  double seconds = 60;
};
struct TuneProgress {
  int trials = 0, failed = 0;
  double best_us = 0, elapsed_s = 0, candidates_per_s = 0;
};

// Searches, measures, verifies and stores until trials or seconds are over, and gives the stored
// best. `go_on`, unless empty, is called after every batch that was stored; once it says false the
// search ends. kNotFound: no schedule was valid; kAlreadyExists: another process tunes this task.
// kFailedPrecondition: this process has other threads (worker processes are forked).
absl::StatusOr<Choice> tune(const Task& task, Store& store, const TuningOptions& options = {},
                            const std::function<bool(const TuneProgress&)>& go_on = nullptr);

}  // namespace lw
