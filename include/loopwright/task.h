// From words to a schedule: a Task is a program on a target, a Choice one way to compute it.
//
//   ASSIGN_OR_RETURN(Task task, make_task({"matmul", "M=512"}, {}));
//   ASSIGN_OR_RETURN(Choice choice, choose(task, nullptr));
//
// Errors of this folder: kInvalidArgument for what the caller asked wrongly, kNotFound for what is
// not there, kUnavailable, kDataLoss and the like from a store as tuning.h says, kInternal for our
// bugs. Functions are thread-safe on different objects unless said.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lw {

class Backend;
class Store;
struct Kernel;
struct Key;
struct Measurement;
struct Nest;
struct Program;
struct WorkloadRow;

// ---- what is asked ------------------------------------------------------------------------------

// A machine, as data: by its name ("host" is this one; unknown names answer with the known ones),
// as its JSON, which `loopwright targets NAME --json` shows, or by the path of a file with it, that
// has a '/' or ends in ".json". "opencl:0" and "opencl:PART-OF-A-NAME" are devices that drivers have
// here. An NPU's may also be a configuration as `npu_sim` takes it.
struct Target;
absl::StatusOr<std::shared_ptr<const Target>> load_target(std::string_view given);

struct TaskOptions {
  std::string target = "host";             // as load_target() takes it
  int threads = 0;                         // 0: every processor that this process may use
  const std::vector<std::string>* const_names = nullptr;  // as load_workload() takes them
  bool winograd = false;                   // schedules may use Winograd's algorithm, whose rounding
                                           // errors are larger; part of the key: who did not ask
                                           // is never given such a schedule
  bool bf16 = false;                       // as "allow=bf16" among the words (load_workload)
};

// A workload on a target with so many threads: all that a schedule's time depends on. A value,
// cheap to copy.
class Task {
 public:
  const std::shared_ptr<const Program>& program() const;
  const std::shared_ptr<const Target>& target() const;
  int threads() const;
  // Parts that our own headers define.
  const Backend& backend() const;
  const Nest& start() const;               // the unscheduled program
  const Key& key() const;
  const WorkloadRow& workload() const;

  struct Parts;                            // src/api/task.h
  explicit Task(Parts parts);
  const Parts& parts() const { return *parts_; }

 private:
  std::shared_ptr<const Parts> parts_;
};
// `words`: as load_workload() takes them, also a program's text.
absl::StatusOr<Task> make_task(const std::vector<std::string>& words, const TaskOptions& options);
// `words`: what people call it.
absl::StatusOr<Task> make_task(Program program, const std::string& words,
                               const TaskOptions& options);
absl::StatusOr<Task> make_task(Program program, const std::string& words,
                               std::shared_ptr<const Target> target, int threads);

// Whether the task's kernels can run in this process: kNotFound names the feature or the processors
// that are missing, kInvalidArgument the memory.
absl::Status check_runs_here(const Task& task);

// ---- which schedule -----------------------------------------------------------------------------

struct Choice {
  std::string outcome;                     // "exact": the stored best; "default": the zero-trial
                                           // answer, not measured; "trace": the caller's; else a
                                           // rung of the ladder (lookup.h)
  std::string trace;                       // text
  std::shared_ptr<const Measurement> measurement;  // of the stored best, or null
  // Of a lower rung, how much longer than a tuned kernel it is expected to take: LookupAnswer's.
  std::optional<double> predicted_loss;
  std::shared_ptr<const Nest> nest;
  std::shared_ptr<const Kernel> kernel;

  double time_us() const;                  // of the measurement; 0: there is none
};
// The stored best of exactly this task, else the zero-trial answer. `store` may be null.
absl::StatusOr<Choice> choose(const Task& task, const Store* store);
absl::StatusOr<Choice> choose_trace(const Task& task, std::string_view trace);

}  // namespace lw
