// The library behind the commands, and what a program that says find_package(Loopwright) calls:
// from the words of a workload to a tuned, verified kernel that runs here or is exported.
//
//   ASSIGN_OR_RETURN(Task task, make_task({"matmul", "M=512"}, {}));
//   ASSIGN_OR_RETURN(std::unique_ptr<Store> store, open_sqlite_store("loopwright.db"));
//   ASSIGN_OR_RETURN(TuneResult tuned, tune_task(task, *store, {}));
//   ASSIGN_OR_RETURN(Choice choice, choose(task, store.get()));
//   ASSIGN_OR_RETURN(std::unique_ptr<Executable> kernel, Executable::create(task, choice));
//   kernel->prepack(arguments);             // once, after the const inputs are there
//   kernel->run(arguments);
//
// Errors: kInvalidArgument for what the caller asked wrongly, kNotFound for what is not there,
// kUnavailable, kDataLoss and the like from the store as tuner_db/store.h says, kInternal for our
// bugs. Functions are thread-safe on different objects unless said.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "schedules/steps.h"
#include "src/measure/run/guarded.h"
#include "src/search/search.h"
#include "tuner_db/store.h"
#include "tuner_db/workload_row.h"

namespace lw {

class Backend;
class ParallelPool;
class Runner;
struct Artifact;
struct Bound;
struct Kernel;
struct LocalOptions;

struct Program;
struct Target;

// ---- what is asked ------------------------------------------------------------------------------

struct TaskOptions {
  std::string target = "host";
  int threads = 0;                         // 0: every processor that this process may use
  const std::vector<std::string>* const_names = nullptr;  // as instantiate() takes them
  bool winograd = false;                   // schedules may use Winograd's algorithm, whose rounding
                                           // errors are larger; part of the key: who did not ask
                                           // is never given such a schedule
};

// A workload on a target with so many threads: all that a schedule's time depends on.
struct Task {
  std::shared_ptr<const Program> program;
  std::shared_ptr<const Target> target;
  const Backend* backend = nullptr;
  Nest start;                              // the unscheduled program
  Key key;
  WorkloadRow workload;
  int threads() const { return key.threads; }
};
absl::StatusOr<Task> make_task(const std::vector<std::string>& words, const TaskOptions& options);
absl::StatusOr<Task> make_task(Program program, const std::string& words,
                               const TaskOptions& options);
absl::StatusOr<Task> make_task(Program program, const std::string& words, Target target,
                               int threads);

// The program of a stored workload, as it is kept or from the words it was first asked for with;
// kNotFound when these no longer give it (its file is gone or has changed).
absl::StatusOr<Program> reload_program(const WorkloadRow& row);

// Whether the task's kernels can run in this process: kNotFound names the feature or the processors
// that are missing, kInvalidArgument the memory.
absl::Status check_runs_here(const Task& task);
// Whether that much memory is enough to measure it. kInvalidArgument: how much it takes.
absl::Status check_measurable(const Program& program, double present);

// Where the task's kernels can run: in this process, or, being for another architecture, under an
// emulator (measure/emulator.h), where they are verified but their times are estimates. Errors as
// above; kNotFound also says what the emulator lacks.
enum class RunsOn { kHost, kEmulator };
absl::StatusOr<RunsOn> find_device(const Task& task);
// Of the times that are had there.
TimeKind time_kind(RunsOn device);

// Puts the rows that the task's measurements refer to; done by tune_task.
absl::Status put_task(Store& store, const Task& task);

// ---- which schedule -----------------------------------------------------------------------------

struct Choice {
  std::string outcome;                     // "exact": the stored best; "default": the zero-trial
                                           // answer, not measured; "trace": the caller's; else a
                                           // rung of the ladder (lookup.h)
  std::string trace;                       // text
  std::optional<Measurement> measurement;  // of the stored best
  Nest nest;
  std::shared_ptr<const Kernel> kernel;
};
// The stored best of exactly this task, else the zero-trial answer. `store` may be null.
absl::StatusOr<Choice> choose(const Task& task, const Store* store);
absl::StatusOr<Choice> choose_trace(const Task& task, std::string_view trace);

// ---- what the machine could do ------------------------------------------------------------------

// The bound of the program (measure/limits.h), measured now: call it beside the timing that it
// judges. For a target that is emulated here: by its data, as the estimates that it judges.
absl::StatusOr<Bound> measure_bound(const Task& task, double budget_s = 0.05);
// The same beside the measured time of a schedule, of what that computes: by Winograd's algorithm
// its own multiplications and transforms. A bound above it means that one of the two is wrong,
// mostly the bound on a machine that was disturbed just then: it is measured again, longer, a few
// times. What is still above then is for the caller to say.
absl::StatusOr<Bound> measure_bound_beside(const Task& task, const Choice& choice, double time_us,
                                           double budget_s = 0.05);
// The same of a stored measurement: by the rates that it carries (a finalist), if credible.
absl::StatusOr<Bound> bound_beside(const Task& task, const Measurement& measurement,
                                   double budget_s = 0.05);

// ---- tuning -------------------------------------------------------------------------------------

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

// ---- running and exporting ----------------------------------------------------------------------

absl::StatusOr<Artifact> build(const Task& task, const Choice& choice);

// A kernel in this process or, where find_device says so, in an emulated one. Thread-compatible.
// `arguments`: one pointer per argument of the program (build/context.h says how aligned).
class Executable {
 public:
  static absl::StatusOr<std::unique_ptr<Executable>> create(const Task& task, const Choice& choice);
  ~Executable();
  absl::Status prepack(void* const* arguments);
  absl::Status run(void* const* arguments);
  bool emulated() const { return emulated_ != nullptr; }  // its wall time means nothing

 private:
  struct Emulated;
  Executable();
  std::unique_ptr<Emulated> emulated_;     // null: runner_ runs it here
  std::unique_ptr<ParallelPool> pool_;
  std::unique_ptr<Runner> runner_;
};

// Memory for all arguments of a program, 64-byte aligned.
class ArgumentMemory {
 public:
  static absl::StatusOr<ArgumentMemory> create(const Program& program);
  void* const* pointers() const { return pointers_.data(); }
  std::byte* data(int argument) const { return static_cast<std::byte*>(pointers_[argument]); }
  // Fills the inputs with random values in the range that their use implies.
  void fill_inputs(const Program& program, uint64_t seed);
  std::vector<const std::byte*> inputs(const Program& program) const;
  std::vector<const std::byte*> outputs(const Program& program) const;

 private:
  std::vector<GuardedMap> maps_;
  std::vector<void*> pointers_;
};

// Writes NAME.o, NAME.h and NAME.json into `folder` (made if needed) and returns their paths.
// kUnavailable: what the file system says.
absl::StatusOr<std::vector<std::string>> export_kernel(const Task& task, const Choice& choice,
                                                       const std::string& folder);

}  // namespace lw
