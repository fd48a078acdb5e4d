// Training data: what tasks' schedules took, in one compressed file.
//
// A program is kept as its trace, not as its features: when features, the draft or the space's
// steps change, the same measurements are learned from anew. Lines of text under Zstandard:
//
//   loopwright data 1
//   target NAME {json}                      before the tasks that name it
//   task CLASS TARGET THREADS CONST words   CONST: "-" as declared, "none", or names with commas
//   program SOURCE TIME LOW HIGH            microseconds; TIME 0: the candidate's own fault
//   <tab>step                               of its trace, each on a line
//
// Values; thread-safe on different objects.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cost_model/cost_model.h"
#include "loopwright/task.h"
#include "schedules/targets/target.h"

namespace lw {

// What is asked: the words of a workload and what its times depend on besides.
struct TaskSpec {
  std::string kind;                        // its class of operators: what is held out together
  std::string target = "host";
  int threads = 1;
  std::optional<std::vector<std::string>> const_names;  // as instantiate() takes them
  std::vector<std::string> words;
};

struct MeasuredProgram {
  std::string trace;                       // text
  char source = 'u';                       // 'u': drawn uniformly from the space; 's': as a
                                           // search would choose
  double time_us = 0, low_us = 0, high_us = 0;  // 0: it failed, by its own fault
};

struct MeasuredTask {
  TaskSpec spec;
  std::vector<MeasuredProgram> programs;
};

struct Dataset {
  std::map<std::string, Target> targets;   // as they were, by the name that tasks use
  std::vector<MeasuredTask> tasks;
};

std::string to_text(const Dataset& dataset);
// kInvalidArgument: the line that is wrong.
absl::StatusOr<Dataset> parse_dataset(std::string_view text);

// kNotFound: no such file; kDataLoss: damaged or cut off; else as parse_dataset. Writing replaces
// the file whole.
absl::StatusOr<Dataset> load_dataset(const std::string& path);
absl::Status save_dataset(const Dataset& dataset, const std::string& path);

// The task on the target that the data set has for it.
absl::StatusOr<Task> task_of(const TaskSpec& spec, const Target& target);

// One example a program. Those whose task or trace is no longer to be had are left out.
struct LabelledExamples {
  std::vector<Example> examples;           // group: position of the task
  std::vector<int> kind;                   // of each example: position in `kinds`, which are
                                           // classes of operators, or targets
  std::vector<bool> uniform;               // of each example: drawn uniformly from the space
  std::vector<std::string> kinds;
  int64_t skipped = 0;
};
enum class LabelledBy : uint8_t { kClass, kTarget };
LabelledExamples examples_of(const Dataset& dataset, LabelledBy by = LabelledBy::kClass);

}  // namespace lw
