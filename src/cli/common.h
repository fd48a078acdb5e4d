// What all commands share: options, the store, output in three formats, errors as exit codes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loopwright/task.h"
#include "nlohmann/json.hpp"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/cli/arguments.h"
#include "src/cli/exit.h"
#include "src/expr/language/text.h"
#include "src/figures/format.h"
#include "src/measure/machine/limits.h"
#include "src/measure/run/simulation.h"

namespace lw {

class Model;
class RecordSource;
class Snapshot;

using Json = nlohmann::ordered_json;

// The code of an error: what environment() has marked is kEnvironmentFailed; else kInvalidArgument,
// kFailedPrecondition (infeasible), kOutOfRange, kResourceExhausted (too large): kBadRequest;
// kNotFound: kNothingFound; kAborted: kNotValid; kInternal and what nobody expects: kOurBug.
int exit_code(const absl::Status& status);
// Marks an error of the store or the file system. kInternal and kInvalidArgument stay our bugs.
absl::Status environment(absl::Status status);
template <class Value>
absl::StatusOr<Value> environment(absl::StatusOr<Value> value) {
  if (!value.ok()) return environment(value.status());
  return value;
}

// ---- options ------------------------------------------------------------------------------------

struct WorkloadOptions {
  std::vector<std::string> words;
  std::string target = "host";
  int threads = 0;
  std::optional<std::vector<std::string>> const_names;
  std::string const_text;
  std::vector<std::string> allow;

  absl::StatusOr<Task> task() const;
  absl::StatusOr<Task> task(const std::vector<std::string>& other_words) const;
  // Of a suite: what the case says of itself counts, else what is said here.
  absl::StatusOr<Task> task(const SuiteCase& one) const;
  WorkloadOptions of(const SuiteCase& one) const;
  TaskOptions task_options() const;
  bool allows(std::string_view what) const;
  // A workload's words, with what is allowed of its program; "-" is the text on standard input.
  std::vector<std::string> all_words(std::vector<std::string> of) const;
};
// `required`: a WORKLOAD must be given.
void add_workload(CliArguments app, WorkloadOptions* options, bool required = true);
// All of them but the words.
void add_workload_options(CliArguments app, WorkloadOptions* options);

// --suite: workloads of a file, of which the words then name some.
void add_suite(CliArguments app, std::string* suite);

struct Asked {
  std::string words;
  Task task;
};
// The workloads of the words, or of a suite's cases that they name. Errors are the words'.
absl::StatusOr<std::vector<Asked>> asked_workloads(const WorkloadOptions& workload,
                                                   const std::string& suite);

// What of a suite is refused, for `refused` of the document; and said by name on stderr, even with
// -q: the others go on without it.
Json say_refused(const std::vector<RefusedCase>& refused);
// When nothing of a suite is left: kInvalidArgument, or `first` where all were refused alike.
absl::Status all_refused(const std::vector<RefusedCase>& refused, const absl::Status& first);

// `shipped`, or the file of a model; errors as load_model's.
absl::StatusOr<std::unique_ptr<Model>> model_named(const std::string& name,
                                                   std::string_view architecture);

struct DatabaseFlags {
  std::string path;
  std::string snapshot;                    // of `db snapshot`, read instead; "": none
  bool frozen = false;                     // a miss is exit 2
  bool only_own = false;                   // below the task's own schedules there is the default
  bool unverified = false;                 // take what was never verified without a check
  bool insecure = false;                   // a PostgreSQL of another machine, without proof

  // For commands that write. Errors are marked.
  absl::StatusOr<std::unique_ptr<Store>> open() const;
  // For look-ups: null when there is no file yet (PostgreSQL's always is there, or an error).
  absl::StatusOr<std::unique_ptr<Store>> open_to_read() const;
  // What look-ups read: the records of the snapshot that is named, else of the database.
  struct Records {
    std::unique_ptr<Store> store;            // null: `source` is
    const Snapshot* snapshot = nullptr;
    std::unique_ptr<RecordSource> source;
  };
  absl::StatusOr<Records> open_records() const;
  std::string shown() const;               // for messages: without a password
};
void add_database(CliArguments app, DatabaseFlags* options);
void add_snapshot(CliArguments app, DatabaseFlags* options);
// What a miss does: --frozen; where the command `runs` what it finds, --unverified.
void add_frozen(CliArguments app, DatabaseFlags* options, bool runs);

struct Output {
  std::string format = "table";            // table | json | csv
  bool json = false, quiet = false, verbose = false;

  bool is_json() const { return json || format == "json"; }
  // Lines for people, on stderr, unless -q.
  void note(std::string_view line) const;
};
void add_output(CliArguments app, Output* output);

// What a miss with --frozen ends with: prints the tuning request that would cure it.
absl::Status frozen_miss(const Task& task, const std::string& where);
// The same of those of `asked` that are missing.
absl::Status frozen_miss(const std::vector<Task>& missing, size_t asked, const std::string& where);

// The ladder's answer (src/api/lookup.h), as `best` gives it; with a note unless it is exact, or an
// error with --frozen.
absl::StatusOr<Choice> choose_and_say(const Task& task, const DatabaseFlags& database,
                                      const Output& output);
// The same for what is about to run or be given away: checked first where it was never verified
// (loopwright/kernel.h), but for --unverified. Call it before any thread is started.
absl::StatusOr<Choice> choose_to_run(const Task& task, const DatabaseFlags& database,
                                     const Output& output);

// ---- output -------------------------------------------------------------------------------------

struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
  std::vector<bool> right;                 // right-aligned columns; missing: left
};

// The table with its columns aligned.
std::string as_text(const Table& table);

// Prints the one result in the format asked for. `text` replaces the aligned table where it is
// given.
void emit(const Output& output, const Json& document, const Table& table,
          const std::string& text = "");

// Text in bold where stdout is a terminal (and NO_COLOR is not set).
std::string bold(const std::string& text);

Json time_json(const Measurement& measurement);  // {low, high} as ci_us
Json limits_json(const Bound& bound);      // {name, by, us} of each limit, the largest first
// Its time in its unit, what limits it, and the share of the time that each engine is in each state.
Json simulation_json(const Simulation& simulation);

// Reads all of a text file. kInvalidArgument.
absl::StatusOr<std::string> read_text(const std::string& path);
absl::Status write_text(const std::string& path, const std::string& text);

}  // namespace lw
