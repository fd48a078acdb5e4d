#include "src/client/lock.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "loopwright/kernel.h"
#include "schedules/targets/target.h"
#include "src/api/task.h"
#include "src/api/words.h"
#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/hash.h"
#include "src/base/message.h"
#include "src/expr/expr.h"
#include "src/expr/language/syntax.h"
#include "src/kernel/kernel.h"
#include "tuner_db/invariants.h"
#include "tuner_db/records/record_codec.h"

namespace lw {
namespace {

namespace fs = std::filesystem;
absl::Status write_with_folder(const std::string& path, const std::string& text) {
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  return write_file(path, text);
}

// The objects' folder while they are hashed.
struct Scratch {
  std::string folder;
  Scratch() {
    std::error_code error;
    std::string name = (fs::temp_directory_path(error) / "loopwright_lock_XXXXXX").string();
    if (!error && mkdtemp(name.data()) != nullptr) folder = name;
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

// Builds and writes the record's kernel: its digest, and the sha256s of its files.
struct Built {
  std::string kernel;
  std::map<std::string, std::string> files;
};
absl::StatusOr<Built> build_into(const Task& task, const ScheduleRecord& record,
                                 const std::string& folder, const ExportOptions& options) {
  ASSIGN_OR_RETURN(Choice choice, choose_trace(task, record.trace));
  Built built;
  built.kernel = kernel_digest(task.key(), hash(*choice.kernel));
  Choice named = exact_choice(record);
  named.nest = std::move(choice.nest);
  named.kernel = std::move(choice.kernel);
  named.measurement.reset();               // so that measuring again changes no file
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, export_kernel(task, named, folder, options));
  for (const std::string& path : paths) {
    const std::string ending = fs::path(path).extension();
    // A library is a linker's, and the JSON beside one speaks of it.
    if (ending == ".so" || (ending == ".json" && options.shared)) continue;
    ASSIGN_OR_RETURN(const std::string bytes, read_file(path));
    built.files[fs::path(path).filename()] = sha256(bytes);
  }
  return built;
}

// What was built is what was locked; of version 1 the objects are of before kernels described
// themselves, but the code is the same.
absl::Status check_built(const LockEntry& entry, const Built& built) {
  const auto is_locked = [&](const auto& file) {
    const auto found = entry.files.find(file.first);
    return found != entry.files.end() && found->second == file.second;
  };
  const auto is_there = [&](const auto& file) {
    return built.files.contains(file.first) || fs::path(file.first).extension() == ".json";
  };
  const bool same = std::all_of(built.files.begin(), built.files.end(), is_locked) &&
                    std::all_of(entry.files.begin(), entry.files.end(), is_there);
  if (entry.is_whole() ? same : entry.kernel.empty() || entry.kernel == built.kernel) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      concat("'", entry.words, "' gives another object than the locked one"));
}

// Kernels of one name (other threads, another target) must not meet.
std::string place_of(const std::string& bundle, const LockEntry& entry) {
  return concat(bundle, "/", entry.record.substr(0, 16));
}

// The program and the target, of version 1 from elsewhere: `source` must not be null.
absl::StatusOr<Task> named_task(const LockEntry& entry, const Lock& lock,
                                const std::string& lock_folder, const RecordSource* source) {
  if (!entry.is_whole()) {
    ASSIGN_OR_RETURN(const std::shared_ptr<const Target> target, source->target(entry.key.target));
    ASSIGN_OR_RETURN(Program program,
                     load_workload(absl::StrSplit(absolute_words(entry.words, lock_folder), ' ')));
    return make_task(std::move(program), entry.words, target, entry.key.threads);
  }
  ASSIGN_OR_RETURN(Program program, parse_program(entry.program, entry.entry));
  return make_task(std::move(program), entry.words, lock.targets.at(entry.key.target),
                   entry.key.threads);
}

absl::StatusOr<Task> task_of(const LockEntry& entry, const Lock& lock,
                             const std::string& lock_folder, const RecordSource* source) {
  ASSIGN_OR_RETURN(Task task, named_task(entry, lock, lock_folder, source));
  Objective objective;
  if (!parse_objective(entry.key.objective, &objective)) {
    return absl::FailedPreconditionError(concat("'", entry.words, "' is locked for the objective ",
                                                entry.key.objective,
                                                ", which this program does not know"));
  }
  task = with_objective(task, objective);
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

// The op's name, or with digits of what else the key says: not of the code generator, so that a newer
// one changes no symbol.
std::string symbol_of(const Task& task, const std::set<std::string>& taken) {
  const std::string& op = task.program()->name;
  if (!taken.contains(op)) return op;
  Key key = task.key();
  key.backend.clear();
  return concat(op, "_", sha256(key_text(key)).substr(0, 8));
}

absl::StatusOr<LockEntry> lock_task(const Task& task, const std::string& symbol,
                                    const ScheduleRecord& record) {
  const Scratch scratch;
  if (scratch.folder.empty()) return absl::UnavailableError("there is no temporary folder");
  LockEntry entry;
  entry.words = task.workload().source_words;
  entry.entry = symbol;
  entry.program = print(*task.program());
  entry.key = task.key();
  entry.record = record_digest(task.key(), record.trace);
  entry.trace = record.trace;
  entry.time_kind = record.time_kind;
  ASSIGN_OR_RETURN(Built built, build_into(task, record, scratch.folder, {symbol}));
  entry.kernel = std::move(built.kernel);
  entry.files = std::move(built.files);
  return entry;
}

}  // namespace

absl::StatusOr<Locked> lock_tasks(const std::vector<LockRequest>& requests, const Lock& before,
                                  const RecordSource& source, const std::string& folder) {
  struct Found {
    Task task;
    std::string symbol;
    std::shared_ptr<const ScheduleRecord> record;
  };
  Locked locked;
  std::map<std::string, Found> found;        // by key
  std::vector<std::string> order;
  std::set<std::string> taken;
  for (const LockRequest& request : requests) {
    const std::string& words = request.task->workload().source_words;
    const Task task = with_words(*request.task, relative_words(words, folder));
    absl::StatusOr<std::shared_ptr<const ScheduleRecord>> record = exact_record(task, source);
    if (absl::IsNotFound(record.status())) {
      locked.missing.push_back(request.task);
      continue;
    }
    if (!record.ok()) return record.status();
    const std::string key = key_text(task.key());
    std::string symbol = request.entry;
    for (const LockEntry& old : before.entries) {
      // Whatever generated its code then.
      Key same = old.key;
      same.backend = task.key().backend;
      if (symbol.empty() && same == task.key()) symbol = old.entry;
    }
    const auto [place, is_new] = found.try_emplace(key, Found{task, symbol, *record});
    if (!is_new && (request.entry.empty() || request.entry == place->second.symbol)) continue;
    if (!is_new) {
      return absl::InvalidArgumentError(concat("'", words, "' is asked for twice, as '",
                                               place->second.symbol, "' and as '", request.entry,
                                               "': a lock file has one kernel of each"));
    }
    order.push_back(key);
    if (symbol.empty()) continue;
    if (!is_identifier(symbol)) {
      return absl::InvalidArgumentError(
          concat("'", words, "': the entry '", symbol, "' is no identifier of C"));
    }
    if (!taken.insert(symbol).second) {
      return absl::InvalidArgumentError(
          concat("'", words, "': another kernel is called '", symbol, "'"));
    }
  }
  for (const std::string& key : order) {
    Found& one = found.at(key);
    if (one.symbol.empty()) {
      one.symbol = symbol_of(one.task, taken);
      taken.insert(one.symbol);
    }
    ASSIGN_OR_RETURN(LockEntry entry, lock_task(one.task, one.symbol, *one.record));
    locked.lock.entries.push_back(std::move(entry));
    locked.lock.targets[one.task.key().target] = one.task.target();
  }
  return locked;
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
    ASSIGN_OR_RETURN(const Task task, task_of(entry, lock, lock_folder, &source));
    absl::StatusOr<std::shared_ptr<const ScheduleRecord>> best = exact_record(task, source);
    if (!best.ok() && !absl::IsNotFound(best.status())) return best.status();
    ScheduleRecord record = best.ok() ? **best : make_record(task.workload(), {task.key(), {}, {}});
    if (!best.ok() || record_digest(entry.key, record.trace) != entry.record) {
      if (entry.is_whole()) {
        record.trace = entry.trace;
      } else {
        ASSIGN_OR_RETURN(record.trace, other_trace(entry, record.key));
      }
      record.time_us = record.ci_low_us = record.ci_high_us = 0;  // the best's, not this one's
      record.samples = 0;
      record.others.clear();
    }
    record.source_words = entry.words;
    const LockEntry locked = entry;
    entry.record = record_digest(task.key(), record.trace);  // of an old key another
    ASSIGN_OR_RETURN(const Built built,
                     build_into(task, record, place_of(folder, entry), {entry.entry}));
    entry.kernel = built.kernel;           // which an older lock file does not say
    RETURN_IF_ERROR(check_not_withdrawn(entry, withdrawn));
    RETURN_IF_ERROR(check_built(locked, built));
    // From here on it is of version 2.
    entry.files = built.files;
    entry.entry = entry.entry.empty() ? task.program()->name : entry.entry;
    entry.program = print(*task.program());
    entry.trace = record.trace;
    bundle.targets[task.key().target] = task.target();
    RETURN_IF_ERROR(
        write_with_folder(concat(place_of(folder, entry), "/record.json"), to_json(record) + "\n"));
    entry.key = task.key();
  }
  // Last: a bundle that has it is whole.
  return write_with_folder(folder + "/bundle.json", to_text(bundle));
}

namespace {

struct LockedEntry {
  Lock lock;
  LockEntry entry;
};
// The task's, of a lock file; not withdrawn.
absl::StatusOr<LockedEntry> entry_of(const Task& task, const std::string& path,
                                     const WithdrawnReasons& withdrawn) {
  const absl::StatusOr<std::string> text = read_file(path);
  if (!text.ok()) return absl::UnavailableError(text.status().message());  // no miss
  LockedEntry found;
  ASSIGN_OR_RETURN(found.lock, parse_lock(*text));
  for (const LockEntry& entry : found.lock.entries) {
    if (!(entry.key == task.key())) continue;
    RETURN_IF_ERROR(check_not_withdrawn(entry, withdrawn));
    found.entry = entry;
    return found;
  }
  return absl::NotFoundError(concat("'", task.workload().source_words, "' is not in ", path));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> take_locked(const Task& task, const std::string& bundle,
                                                     const std::string& lock_file,
                                                     const WithdrawnReasons& withdrawn,
                                                     const std::string& folder) {
  const std::string path = lock_file.empty() ? bundle + "/bundle.json" : lock_file;
  ASSIGN_OR_RETURN(const LockedEntry found, entry_of(task, path, withdrawn));
  std::vector<std::string> paths;
  for (const auto& [name, sum] : found.entry.files) {
    const std::string file = concat(place_of(bundle, found.entry), "/", name);
    const absl::StatusOr<std::string> bytes = read_file(file);
    if (!bytes.ok()) return absl::DataLossError(bytes.status().message());
    if (sha256(*bytes) != sum) {
      return absl::DataLossError(concat(
          file, " is not the file that ", path, " locks: ",
          found.entry.is_whole() ? "`loopwright fetch` makes it anew"
                                 : "the lock file is of version 1, run `loopwright lock` again"));
    }
    paths.push_back(concat(folder, "/", name));
    RETURN_IF_ERROR(write_with_folder(paths.back(), *bytes));
  }
  return paths;
}

absl::StatusOr<std::vector<std::string>> build_locked(const Task& asked,
                                                      const std::string& lock_file,
                                                      const WithdrawnReasons& withdrawn,
                                                      const std::string& folder,
                                                      const ExportOptions& options) {
  ASSIGN_OR_RETURN(const LockedEntry found, entry_of(asked, lock_file, withdrawn));
  const LockEntry& entry = found.entry;
  if (!entry.is_whole()) {
    return absl::FailedPreconditionError(
        concat(lock_file, " is of version 1, without traces: run `loopwright lock` again, or take a "
               "bundle"));
  }
  if (!options.entry.empty() && options.entry != entry.entry) {
    return absl::FailedPreconditionError(
        concat("'", entry.words, "' is locked as '", entry.entry, "', not as '", options.entry,
               "': `loopwright lock` it with --entry, or ask for that"));
  }
  ASSIGN_OR_RETURN(const Task task, task_of(entry, found.lock, "", nullptr));
  const Scratch scratch;
  if (scratch.folder.empty()) return absl::UnavailableError("there is no temporary folder");
  ScheduleRecord record = make_record(task.workload(), {task.key(), {}, {}});
  record.trace = entry.trace;
  ASSIGN_OR_RETURN(const Built built,
                   build_into(task, record, scratch.folder,
                              {entry.entry, options.shared, options.tvm_ffi}));
  RETURN_IF_ERROR(check_built(entry, built));
  std::vector<std::string> paths;
  for (const fs::directory_entry& file : fs::directory_iterator(scratch.folder)) {
    ASSIGN_OR_RETURN(const std::string bytes, read_file(file.path()));
    paths.push_back(concat(folder, "/", file.path().filename().string()));
    RETURN_IF_ERROR(write_with_folder(paths.back(), bytes));
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace lw
