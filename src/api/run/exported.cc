#include "src/api/run/exported.h"

#include <algorithm>
#include <filesystem>

#include "loopwright/kernel.h"
#include "nlohmann/json.hpp"
#include "src/api/kernel_facts.h"
#include "src/api/run/checked.h"
#include "src/api/task.h"
#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/hash.h"
#include "src/base/message.h"
#include "src/build/build.h"
#include "src/expr/language/json_text.h"
#include "src/kernel/kernel.h"
#include "tuner_db/key_terms.h"

namespace lw {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct Exported {
  std::string entry, program, target, target_id, workload, words, backend, trace, outcome, objective;
  int threads = 0;
  std::vector<std::pair<std::string, std::string>> files;  // name, sha256
};

absl::StatusOr<Exported> read_exported(const std::string& path) {
  const absl::StatusOr<std::string> text = read_file(path);
  if (!text.ok()) return absl::UnavailableError(text.status().message());
  const Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  Exported read;
  const std::pair<const char*, std::string*> texts[] = {
      {"entry", &read.entry},         {"program", &read.program},
      {"target", &read.target},       {"target_sha256", &read.target_id},
      {"workload", &read.words},      {"canonical_sha256", &read.workload},
      {"backend", &read.backend},     {"trace", &read.trace},
      {"outcome", &read.outcome},     {"objective", &read.objective}};
  bool whole = std::all_of(std::begin(texts), std::end(texts), [&](const auto& text) {
    return take_text(json, text.first, text.second);
  });
  whole = whole && json.contains("threads") && json["threads"].is_number_integer() &&
          json.contains("files") && json["files"].is_object();
  if (!whole) {
    return absl::InvalidArgumentError(concat(path, ": not what `loopwright export` writes today"));
  }
  read.threads = json["threads"].get<int>();
  for (const auto& [name, sum] : json["files"].items()) {
    if (name.find('/') != std::string::npos || !sum.is_string()) {
      return absl::InvalidArgumentError(concat(path, ": '", name, "' is no file with a sha256"));
    }
    read.files.emplace_back(name, sum.get<std::string>());
  }
  return read;
}

absl::StatusOr<Task> task_of_exported(const Exported& read, const std::string& path) {
  ASSIGN_OR_RETURN(Program program, parse_program(read.program, path));
  const absl::StatusOr<std::shared_ptr<const Target>> target = load_target(read.target);
  if (!target.ok()) return absl::NotFoundError(target.status().message());
  ASSIGN_OR_RETURN(Task task, make_task(std::move(program), read.words, *target, read.threads));
  Objective objective;
  if (!parse_objective(read.objective, &objective)) {
    return absl::InvalidArgumentError(concat(path, ": unknown objective '", read.objective, "'"));
  }
  task = with_objective(task, objective);
  if (task.key().workload != read.workload) {
    return absl::InvalidArgumentError(concat(path, ": its program is not that of its sha256"));
  }
  if (task.key().target != read.target_id) {
    return absl::NotFoundError(concat(path, ": the target '", read.target,
                                      "' is another machine here than where it was exported"));
  }
  if (task.key().backend != read.backend) {
    return absl::FailedPreconditionError(concat(path, ": it was made by ", read.backend,
                                                ", this is ", task.key().backend));
  }
  return task;
}

}  // namespace

absl::Status verify_exported(const std::string& path) {
  ASSIGN_OR_RETURN(const Exported read, read_exported(path));
  const fs::path folder = fs::path(path).parent_path();
  for (const auto& [name, sum] : read.files) {
    const absl::StatusOr<std::string> bytes = read_file((folder / name).string());
    if (!bytes.ok()) return absl::DataLossError(bytes.status().message());
    if (sha256(*bytes) != sum) {
      return absl::DataLossError(concat((folder / name).string(), " is not the file that ", path,
                                        " speaks of: export it again"));
    }
  }
  ASSIGN_OR_RETURN(const Task task, task_of_exported(read, path));
  ASSIGN_OR_RETURN(Choice choice, choose_trace(task, read.trace));
  choice.outcome = read.outcome;
  ASSIGN_OR_RETURN(const DescribedKernel again, build_described(task, choice, read.entry));
  ASSIGN_OR_RETURN(const std::vector<ExportedFile> made,
                   task.backend().exported(again.artifact, ""));
  for (const ExportedFile& file : made) {
    // Headers say where what they declare comes from, and JSON is a part of NAME.json.
    if (file.ending == ".h" || file.ending == ".json") continue;
    const auto said = std::find_if(read.files.begin(), read.files.end(), [&](const auto& one) {
      return one.first == read.entry + file.ending;
    });
    if (said == read.files.end()) {
      return absl::InvalidArgumentError(
          concat(path, ": ", read.entry, file.ending, " is not among its files"));
    }
    if (file.ending == ".o" && said->second != sha256(file.bytes)) {
      return absl::DataLossError(concat(path, ": its program and trace give another object than ",
                                        said->first));
    }
  }
  return check_in_worker(task, choice);
}

}  // namespace lw
