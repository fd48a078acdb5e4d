// What tasks and choices (loopwright/task.h) are made of, and what our own code asks of them.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "loopwright/task.h"
#include "schedules/nest.h"
#include "tuner_db/key_terms.h"
#include "tuner_db/store.h"

namespace lw {

struct Artifact;

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

// Puts the rows that the task's measurements refer to; done by tune_task.
absl::Status put_task(Store& store, const Task& task);

// kNotFound: there is no schedule; else the backend's errors.
// kNotFound: the choice has no kernel, so that there is nothing to build.
absl::Status check_found(const Task& task, const Choice& choice);
absl::StatusOr<Artifact> build(const Task& task, const Choice& choice);

}  // namespace lw
