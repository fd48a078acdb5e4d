// From words to a Task: the program, its target, its identity in the database.
#include <algorithm>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "schedules/targets/family.h"
#include "schedules/targets/identity.h"
#include "schedules/targets/named_machine.h"
#include "src/api/task.h"
#include "src/api/words.h"
#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/message.h"
#include "src/base/parallel_pool.h"
#include "src/build/build.h"
#include "src/expr/expr.h"
#include "src/expr/language/text.h"
#include "tuner_db/key_terms.h"
#include "tuner_db/workload_row.h"

namespace lw {
namespace {

constexpr int kMaxThreads = 4096;

// A file's words must find it again from another directory.
std::string found_anywhere(const std::vector<std::string>& words, const Program& program) {
  const std::vector<std::string> all =
      absl::StrSplit(label_of(words, program), ' ', absl::SkipEmpty());
  return absolute_words(absl::StrJoin(all, " "), "");
}

// What the device cannot compute in at all no schedule of it could be built.
absl::Status check_types(const Program& program, const Target& target) {
  const auto computes_in = target.part.family()->computes_in;
  if (computes_in == nullptr) return absl::OkStatus();
  const auto check = [&](std::string_view tensor, Type type) -> absl::Status {
    if (computes_in(target, type)) return absl::OkStatus();
    return absl::InvalidArgumentError(concat(tensor, " computes in ", type_name(type), ", in which ",
                                             "target '", target.name, "' does not compute: ",
                                             "want another type, or another target"));
  };
  for (const Tensor& tensor : program.tensors) {
    RETURN_IF_ERROR(check(tensor.name, tensor.type));
    absl::Status status;
    if (tensor.body) {
      visit(tensor.body, [&](const ExprNode& e) {
        if (status.ok()) status = check(tensor.name, e.type);
      });
    }
    RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

absl::StatusOr<Task::Parts> make_parts(Program program, const std::string& words,
                                       std::shared_ptr<const Target> target, int threads) {
  if (threads < 0 || threads > kMaxThreads) {
    return absl::InvalidArgumentError(
        concat("the number of threads must be 1 to ", kMaxThreads, ", not ", threads));
  }
  RETURN_IF_ERROR(check_family(*target));
  RETURN_IF_ERROR(check_types(program, *target));
  if (const std::string later = later_fields(*target); !later.empty()) {
    return absl::UnimplementedError(
        concat("of another version: target '", target->name, "' says ", later,
               ", which this program does not understand; update it"));
  }
  Task::Parts parts;
  parts.program = std::make_shared<const Program>(std::move(program));
  parts.target = std::move(target);
  ASSIGN_OR_RETURN(parts.backend, find_backend(parts.target->architecture));
  parts.workload = workload_row(*parts.program, words);
  parts.key.workload = parts.workload.id;
  parts.key.target = target_id(*parts.target);
  parts.key.backend = parts.backend->version();
  const bool has_threads = parts.target->part.family()->has_threads;
  if (threads > 1 && !has_threads) {
    return absl::InvalidArgumentError(concat("target '", parts.target->name,
                                             "' has one thread, not ", threads));
  }
  parts.key.threads = threads > 0 ? threads
                      : has_threads ? static_cast<int>(allowed_cpus().size()) : 1;
  parts.start = make_nest(parts.program, parts.target, parts.key.threads);
  return parts;
}

}  // namespace

Task::Task(Parts parts) : parts_(std::make_shared<const Parts>(std::move(parts))) {}
const std::shared_ptr<const Program>& Task::program() const { return parts_->program; }
const std::shared_ptr<const Target>& Task::target() const { return parts_->target; }
int Task::threads() const { return parts_->key.threads; }
const Backend& Task::backend() const { return *parts_->backend; }
const Nest& Task::start() const { return parts_->start; }
const Key& Task::key() const { return parts_->key; }
const WorkloadRow& Task::workload() const { return parts_->workload; }

namespace {

absl::StatusOr<Target> named_target(std::string_view given) {
  if (given.starts_with("{")) return parse_target(given);
  const bool is_path = given.find('/') != std::string_view::npos || given.ends_with(".json");
  if (!is_path) return named_machine(given);
  ASSIGN_OR_RETURN(const std::string text, read_file(std::string(given)));
  return parse_target(text, given);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Target>> load_target(std::string_view given) {
  ASSIGN_OR_RETURN(Target target, named_target(given));
  return std::make_shared<const Target>(std::move(target));
}

absl::StatusOr<Task> make_task(const std::vector<std::string>& words, const TaskOptions& options) {
  std::vector<std::string> all = words;
  if (options.bf16) all.push_back("allow=bf16");
  ASSIGN_OR_RETURN(Program program, load_workload(all, options.const_names));
  const std::string label = found_anywhere(all, program);
  return make_task(std::move(program), label, options);
}

absl::StatusOr<Task> make_task(Program program, const std::string& words,
                               const TaskOptions& options) {
  absl::StatusOr<std::shared_ptr<const Target>> target = load_target(options.target);
  if (!target.ok()) {
    return absl::InvalidArgumentError(target.status().message());  // the request names it
  }
  ASSIGN_OR_RETURN(Task::Parts parts,
                   make_parts(std::move(program), words, *std::move(target), options.threads));
  return with_objective(Task(std::move(parts)),
                        options.winograd ? Objective::kTimeWinograd : Objective::kTime);
}

absl::StatusOr<Task> make_task(Program program, const std::string& words,
                               std::shared_ptr<const Target> target, int threads) {
  ASSIGN_OR_RETURN(Task::Parts parts,
                   make_parts(std::move(program), words, std::move(target), threads));
  return Task(std::move(parts));
}

absl::StatusOr<Task> make_task(Program program, const std::string& words, Target target,
                               int threads) {
  return make_task(std::move(program), words, std::make_shared<const Target>(std::move(target)),
                   threads);
}

Task with_key(const Task& task, const Key& key) {
  Task::Parts parts = task.parts();
  parts.key = key;
  return Task(std::move(parts));
}

Task with_objective(const Task& task, Objective objective) {
  Task::Parts parts = task.parts();
  parts.key.objective = std::string(objective_name(objective));
  parts.start.winograd = allows_winograd(objective);
  return Task(std::move(parts));
}

Task with_words(const Task& task, const std::string& words) {
  Task::Parts parts = task.parts();
  parts.workload.source_words = words;
  return Task(std::move(parts));
}

absl::StatusOr<Program> reload_program(const WorkloadRow& row) {
  if (!row.program.empty()) {
    absl::StatusOr<Program> kept = parse_program(row.program, row.name);
    if (kept.ok() && workload_id(*kept) == row.id) return kept;
  }
  const absl::Status gone = absl::NotFoundError(
      concat("'", row.source_words, "' no longer gives the workload ", row.id.substr(0, 12)));
  absl::StatusOr<Program> program = load_workload({row.source_words});
  if (!program.ok()) return gone;
  if (workload_id(*program) == row.id) return program;
  // Perhaps --const was given: the canonical text says for which inputs.
  const std::vector<std::string> lines = absl::StrSplit(row.canonical_text, '\n');
  std::vector<std::string> const_names;
  const std::vector<int> in = inputs(*program);
  for (size_t i = 0; i < in.size() && i + 1 < lines.size(); ++i) {
    if (lines[i + 1].size() > 7 && lines[i + 1].substr(lines[i + 1].size() - 7) == "] const") {
      const_names.push_back(program->tensors[in[i]].name);
    }
  }
  program = load_workload({row.source_words}, &const_names);
  if (!program.ok() || workload_id(*program) != row.id) return gone;
  return program;
}

absl::Status put_task(Store& store, const Task& task) {
  RETURN_IF_ERROR(store.put_workload(task.workload()));
  return store.put_target(task.key().target, identity_of(*task.target()));
}

}  // namespace lw
