#include "src/client/lock.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "loopwright/kernel.h"
#include "nlohmann/json.hpp"
#include "schedules/targets/target.h"
#include "src/api/task.h"
#include "src/api/words.h"
#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/hash.h"
#include "src/base/message.h"
#include "src/expr/expr.h"
#include "src/expr/language/text.h"
#include "src/kernel/kernel.h"
#include "tuner_db/invariants.h"
#include "tuner_db/records/record_codec.h"

namespace lw {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kLockVersion = 1;

absl::Status write_with_folder(const std::string& path, const std::string& text) {
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  return write_file(path, text);
}

std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// The objects' folder while they are hashed.
struct Scratch {
  std::string folder;
  Scratch() {
    std::string name = (fs::temp_directory_path() / "loopwright_lock_XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) folder = name;
  }
  ~Scratch() {
    std::error_code ignored;
    if (!folder.empty()) fs::remove_all(folder, ignored);
  }
};

Choice exact_choice(const ScheduleRecord& record) {
  LookupAnswer answer;
  answer.outcome = Rung::kExact;
  answer.record = std::make_shared<const ScheduleRecord>(record);
  answer.trace = record.trace;
  return as_choice(answer);
}

// Builds and writes the record's kernel: its digest, and the sha256s of its object and header. Its
// JSON holds a time, which measuring again changes, and is not locked.
struct Built {
  std::string kernel;
  std::map<std::string, std::string> files;
};
absl::StatusOr<Built> build_into(const Task& task, const ScheduleRecord& record,
                                 const std::string& folder) {
  ASSIGN_OR_RETURN(Choice choice, choose_trace(task, record.trace));
  Built built;
  built.kernel = kernel_digest(task.key(), hash(*choice.kernel));
  Choice named = exact_choice(record);
  named.nest = std::move(choice.nest);
  named.kernel = std::move(choice.kernel);
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, export_kernel(task, named, folder));
  for (const std::string& path : paths) {
    if (fs::path(path).extension() == ".json") continue;
    ASSIGN_OR_RETURN(const std::string bytes, read_file(path));
    built.files[fs::path(path).filename()] = sha256(bytes);
  }
  return built;
}

// A file's name and nothing else.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name[0] != '.' && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

// Kernels of one name (other threads, another target) must not meet.
std::string place_of(const std::string& bundle, const LockEntry& entry) {
  return concat(bundle, "/", entry.record.substr(0, 16));
}

absl::StatusOr<LockEntry> parse_entry(const Json& json) {
  LockEntry entry;
  const auto text = [&](const Json& from, const char* name, std::string* to) {
    if (!from.is_object() || !from.contains(name) || !from[name].is_string()) return false;
    *to = from[name].get<std::string>();
    return true;
  };
  const Json key = json.is_object() && json.contains("key") ? json["key"] : Json();
  const bool whole =
      text(json, "words", &entry.words) && text(json, "record", &entry.record) &&
      text(key, "workload", &entry.key.workload) && text(key, "target", &entry.key.target) &&
      text(key, "backend", &entry.key.backend) && text(key, "cache", &entry.key.cache) &&
      text(key, "objective", &entry.key.objective) && key.contains("threads") &&
      key["threads"].is_number_integer() && json.contains("files") && json["files"].is_object();
  if (!whole) return absl::InvalidArgumentError("lock: an entry lacks words, record, key or files");
  entry.key.threads = key["threads"].get<int>();
  std::string kind;                        // older locks have none, nor have measured times
  if (text(json, "time_kind", &kind) && !parse_time_kind(kind, &entry.time_kind)) {
    return absl::InvalidArgumentError(concat("lock: '", kind, "' is no kind of time"));
  }
  if (text(json, "kernel", &entry.kernel) && !is_digest(entry.kernel)) {
    return absl::InvalidArgumentError("lock: a kernel is no sha256");
  }
  const std::string defect = lw::defect(entry.key);
  if (!defect.empty()) return absl::InvalidArgumentError(concat("lock: a key's ", defect));
  if (!is_digest(entry.record)) return absl::InvalidArgumentError("lock: a record is no sha256");
  for (const auto& [name, sum] : json["files"].items()) {
    if (!is_plain_name(name) || !sum.is_string() || !is_digest(sum.get<std::string>())) {
      return absl::InvalidArgumentError(concat("lock: '", name, "' is no file with a sha256"));
    }
    entry.files[name] = sum.get<std::string>();
  }
  return entry;
}

absl::StatusOr<Task> task_of(const LockEntry& entry, const std::string& lock_folder,
                             const RecordSource& source) {
  absl::StatusOr<std::shared_ptr<const Target>> target = source.target(entry.key.target);
  if (!target.ok()) return target.status();
  WorkloadRow row;
  row.id = entry.key.workload;
  row.source_words = entry.words;
  ASSIGN_OR_RETURN(Program program,
                   load_workload(absl::StrSplit(absolute_words(entry.words, lock_folder), ' ')));
  ASSIGN_OR_RETURN(Task task,
                   make_task(std::move(program), entry.words, *target, entry.key.threads));
  if (task.key().workload != entry.key.workload) {
    return absl::FailedPreconditionError(
        concat("'", entry.words, "' no longer gives the locked workload: run `loopwright lock`"));
  }
  // An old lock file may name this machine with its cores (tuner_db/tables/identities.h).
  Key named = entry.key;
  named.target = task.key().target;
  if (!(task.key() == named)) {
    return absl::FailedPreconditionError(concat("'", entry.words, "' is locked for ",
                                                entry.key.backend, ", this is ", task.key().backend,
                                                ": run `loopwright lock`"));
  }
  return task;
}

absl::StatusOr<std::shared_ptr<const ScheduleRecord>> exact_record(const Task& task,
                                                                   const RecordSource& source) {
  LadderOptions exact;
  exact.lowest = Rung::kExact;
  ASSIGN_OR_RETURN(const std::vector<Match> found, climb(request_of(task), source, exact));
  if (found.empty()) return no_result(task.key());
  return found[0].record;
}

}  // namespace

absl::StatusOr<std::vector<SuiteCase>> read_requests(const std::string& path) {
  absl::StatusOr<std::string> text = read_file(path);
  if (!text.ok()) return absl::InvalidArgumentError(text.status().message());
  const size_t first = text->find_first_not_of(" \t\r\n");
  if (first != std::string::npos && (*text)[first] == '{') return load_suite(path, {});
  std::vector<SuiteCase> cases;
  const std::vector<std::string> lines = absl::StrSplit(*text, '\n');
  for (std::string line : lines) {
    line = line.substr(0, line.find('#'));
    SuiteCase one;
    one.words = absl::StrSplit(absl::StripAsciiWhitespace(line), absl::ByAnyChar(" \t\r"),
                               absl::SkipEmpty());
    one.name = absl::StrJoin(one.words, " ");
    if (!one.words.empty()) cases.push_back(std::move(one));
  }
  if (cases.empty()) return absl::InvalidArgumentError(concat(path, ": names no workload"));
  return cases;
}

std::string request_file(const std::vector<std::string>& words, const std::string& target,
                         int threads) {
  Json json;
  json["command"] = concat("loopwright tune --suite FILE --target ", target,
                           threads > 0 ? concat(" --threads ", threads) : "");
  json["workloads"] = Json::array();
  for (const std::string& one : words) {
    json["workloads"].push_back({{"name", one}, {"words", one}});
  }
  return dump(json);
}

std::string to_text(const Lock& lock) {
  std::map<std::string, const LockEntry*> sorted;
  for (const LockEntry& entry : lock.entries) sorted[key_text(entry.key)] = &entry;
  Json json = {{"loopwright_lock", kLockVersion}, {"entries", Json::array()}};
  for (const auto& [text, entry] : sorted) {
    const Key& key = entry->key;
    json["entries"].push_back({{"words", entry->words},
                               {"key",
                                {{"workload", key.workload},
                                 {"target", key.target},
                                 {"backend", key.backend},
                                 {"threads", key.threads},
                                 {"cache", key.cache},
                                 {"objective", key.objective}}},
                               {"record", entry->record},
                               {"files", entry->files}});
    if (!entry->kernel.empty()) json["entries"].back()["kernel"] = entry->kernel;
    if (entry->time_kind != TimeKind::kMeasured) {
      json["entries"].back()["time_kind"] = time_kind_name(entry->time_kind);
    }
  }
  return dump(json);
}

absl::StatusOr<Lock> parse_lock(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object() || !json.contains("loopwright_lock") ||
      !json.contains("entries") || !json["entries"].is_array()) {
    return absl::InvalidArgumentError("lock: not a lock file");
  }
  if (json["loopwright_lock"] != kLockVersion) {
    return absl::InvalidArgumentError(concat("lock: version ", json["loopwright_lock"].dump(),
                                             ", this program reads ", kLockVersion));
  }
  Lock lock;
  for (const Json& one : json["entries"]) {
    ASSIGN_OR_RETURN(LockEntry entry, parse_entry(one));
    lock.entries.push_back(std::move(entry));
  }
  return lock;
}

absl::StatusOr<LockEntry> lock_task(const Task& asked, const RecordSource& source,
                                    const std::string& folder) {
  const Task task = with_words(asked, relative_words(asked.workload().source_words, folder));
  ASSIGN_OR_RETURN(const std::shared_ptr<const ScheduleRecord> record, exact_record(task, source));
  const Scratch scratch;
  if (scratch.folder.empty()) return absl::UnavailableError("there is no temporary folder");
  LockEntry entry;
  entry.words = task.workload().source_words;
  entry.key = task.key();
  entry.record = record_digest(task.key(), record->trace);
  entry.time_kind = record->time_kind;
  ASSIGN_OR_RETURN(Built built, build_into(task, *record, scratch.folder));
  entry.kernel = std::move(built.kernel);
  entry.files = std::move(built.files);
  return entry;
}

absl::Status check_not_withdrawn(const LockEntry& entry, const WithdrawnReasons& withdrawn) {
  for (const std::string* digest : {&entry.record, &entry.kernel}) {
    const auto found = withdrawn.find(*digest);
    if (found == withdrawn.end()) continue;
    return absl::FailedPreconditionError(
        concat("the record ", entry.record.substr(0, 12), " of '", entry.words,
               "' was withdrawn ", found->second, "; run `loopwright lock` again, of records that "
               "know it"));
  }
  return absl::OkStatus();
}

absl::Status fetch(const Lock& lock, const std::string& lock_folder, const RecordSource& source,
                   FindTrace other_trace, const WithdrawnReasons& withdrawn,
                   const std::string& folder) {
  for (const LockEntry& entry : lock.entries) {
    RETURN_IF_ERROR(check_not_withdrawn(entry, withdrawn));
  }
  Lock bundle = lock;
  for (LockEntry& entry : bundle.entries) {
    ASSIGN_OR_RETURN(const Task task, task_of(entry, lock_folder, source));
    absl::StatusOr<std::shared_ptr<const ScheduleRecord>> best = exact_record(task, source);
    if (!best.ok() && !absl::IsNotFound(best.status())) return best.status();
    ScheduleRecord record = best.ok() ? **best : make_record(task.workload(), {task.key(), {}, {}});
    if (!best.ok() || record_digest(entry.key, record.trace) != entry.record) {
      ASSIGN_OR_RETURN(record.trace, other_trace(entry, record.key));
      record.time_us = record.ci_low_us = record.ci_high_us = 0;  // the best's, not this one's
      record.samples = 0;
      record.others.clear();
    }
    record.source_words = entry.words;
    ASSIGN_OR_RETURN(const Built built, build_into(task, record, place_of(folder, entry)));
    entry.kernel = built.kernel;           // which an older lock file does not say
    RETURN_IF_ERROR(check_not_withdrawn(entry, withdrawn));
    if (built.files != entry.files) {
      return absl::DataLossError(
          concat("'", entry.words, "' gives another object than the locked one"));
    }
    RETURN_IF_ERROR(
        write_with_folder(concat(place_of(folder, entry), "/record.json"), to_json(record) + "\n"));
    entry.key = task.key();
  }
  // Last: a bundle that has it is whole.
  return write_with_folder(folder + "/bundle.json", to_text(bundle));
}

absl::StatusOr<std::vector<std::string>> take_locked(const Task& task, const std::string& bundle,
                                                     const std::string& lock_file,
                                                     const WithdrawnReasons& withdrawn,
                                                     const std::string& folder) {
  const std::string path = lock_file.empty() ? bundle + "/bundle.json" : lock_file;
  ASSIGN_OR_RETURN(const std::string text, read_file(path));
  ASSIGN_OR_RETURN(const Lock lock, parse_lock(text));
  for (const LockEntry& entry : lock.entries) {
    if (!(entry.key == task.key())) continue;
    RETURN_IF_ERROR(check_not_withdrawn(entry, withdrawn));
    std::vector<std::string> paths;
    for (const auto& [name, sum] : entry.files) {
      ASSIGN_OR_RETURN(const std::string bytes,
                       read_file(concat(place_of(bundle, entry), "/", name)));
      if (sha256(bytes) != sum) {
        return absl::DataLossError(concat(place_of(bundle, entry), "/", name,
                                          " is not the file that ", path,
                                          " locks: `loopwright fetch` makes it anew"));
      }
      paths.push_back(concat(folder, "/", name));
      RETURN_IF_ERROR(write_with_folder(paths.back(), bytes));
    }
    return paths;
  }
  return absl::NotFoundError(concat("'", task.workload().source_words, "' is not in ", path));
}

}  // namespace lw
