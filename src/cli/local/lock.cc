// `lock` and `fetch`: builds that depend on two files and nothing else.
#include "src/client/lock.h"

#include <filesystem>
#include <iostream>

#include "absl/strings/str_join.h"
#include "src/api/task.h"
#include "src/base/files.h"
#include "src/cli/commands.h"
#include "src/cli/service/withdrawn.h"
#include "src/client/requests.h"
#include "src/expr/language/text.h"
#include "tuner_db/ladder/snapshot.h"

namespace lw {
namespace {

struct LockOptions {
  std::vector<std::string> requests;
  WorkloadOptions workload;  // but for its words
  DatabaseFlags database;
  WithdrawnFlags withdrawn;
  Output output;
  std::string lock, target_path;
};

std::string folder_of(const std::string& file) { return std::filesystem::path(file).parent_path(); }

// What the records know is withdrawn.
absl::StatusOr<WithdrawnReasons> withdrawn_of(const DatabaseFlags::Records& records) {
  if (records.snapshot != nullptr) return environment(records.snapshot->withdrawn_reasons());
  ASSIGN_OR_RETURN(const std::vector<Withdrawal> rows, environment(records.store->withdrawn()));
  return reasons_of(rows);
}

// Asks whoever is named what is withdrawn of the entries' keys, besides what the records know.
absl::Status refuse_withdrawn(const LockOptions& options, const Lock& lock,
                              WithdrawnReasons* withdrawn) {
  std::vector<Key> keys;
  for (const LockEntry& entry : lock.entries) keys.push_back(entry.key);
  RETURN_IF_ERROR(options.withdrawn.read(keys, withdrawn));
  for (const LockEntry& entry : lock.entries) {
    RETURN_IF_ERROR(check_not_withdrawn(entry, *withdrawn));
  }
  return absl::OkStatus();
}

// The lock file that is about to be replaced, whose symbols stay; none where there is none, or one that
// cannot be read.
Lock lock_before(const std::string& path) {
  const absl::StatusOr<std::string> text = read_file(path);
  if (!text.ok()) return Lock();
  absl::StatusOr<Lock> lock = parse_lock(*text);
  return lock.ok() ? *std::move(lock) : Lock();
}

absl::StatusOr<int> run_lock(const LockOptions& options) {
  std::vector<SuiteCase> cases;
  for (const std::string& path : options.requests) {
    ASSIGN_OR_RETURN(const std::vector<SuiteCase> some, read_requests(path));
    cases.insert(cases.end(), some.begin(), some.end());
  }
  ASSIGN_OR_RETURN(const DatabaseFlags::Records records, options.database.open_records());
  ASSIGN_OR_RETURN(WithdrawnReasons withdrawn, withdrawn_of(records));
  std::vector<Task> tasks;
  std::vector<LockRequest> requests;
  for (const SuiteCase& one : cases) {
    ASSIGN_OR_RETURN(Task task, options.workload.task(one));
    tasks.push_back(std::move(task));
  }
  for (size_t i = 0; i < cases.size(); ++i) requests.push_back({&tasks[i], cases[i].entry});
  const Lock before = lock_before(options.target_path);
  absl::StatusOr<Locked> locked =
      lock_tasks(requests, before, *records.source, folder_of(options.target_path));
  if (!locked.ok()) return environment(locked.status());
  const Lock& lock = locked->lock;
  std::vector<Task> untuned;
  std::vector<std::string> missing;
  for (const Task* task : locked->missing) {
    untuned.push_back(*task);
    missing.push_back(task->workload().source_words);
  }
  if (!missing.empty() && options.database.frozen) {
    std::cout << request_file(untuned);
    return absl::NotFoundError(concat(missing.size(), " of ", cases.size(),
                                      " workloads are not tuned; on stdout: what to tune"));
  }
  RETURN_IF_ERROR(refuse_withdrawn(options, lock, &withdrawn));
  for (const std::string& words : missing) options.output.note("not tuned, left out: " + words);
  RETURN_IF_ERROR(write_text(options.target_path, to_text(lock)));
  emit(options.output,
       {{"file", options.target_path}, {"locked", lock.entries.size()}, {"missing", missing}},
       {{"file", "locked", "missing"},
        {{options.target_path, concat(lock.entries.size()), concat(missing.size())}},
        {false, true, true}});
  return kDone;
}

absl::StatusOr<int> run_fetch(const LockOptions& options) {
  ASSIGN_OR_RETURN(const std::string text, read_text(options.lock));
  ASSIGN_OR_RETURN(const Lock lock, parse_lock(text));
  ASSIGN_OR_RETURN(const DatabaseFlags::Records records, options.database.open_records());
  ASSIGN_OR_RETURN(WithdrawnReasons withdrawn, withdrawn_of(records));
  RETURN_IF_ERROR(refuse_withdrawn(options, lock, &withdrawn));
  const auto other_trace = [&](const LockEntry& entry,
                               const Key& key) -> absl::StatusOr<std::string> {
    std::vector<std::string> traces;
    if (records.store != nullptr) {
      ASSIGN_OR_RETURN(const std::vector<Measurement> all, records.store->measurements(key));
      for (const Measurement& m : all) traces.push_back(m.trace);
    } else if (const auto record = records.source->record(key); record.ok()) {
      for (const RankedTrace& other : (*record)->others) traces.push_back(other.trace);
    }
    for (std::string& trace : traces) {
      if (record_digest(entry.key, trace) == entry.record) return std::move(trace);
    }
    return absl::NotFoundError(
        concat("the record ", entry.record.substr(0, 12), " of '", entry.words, "' is gone"));
  };
  const absl::Status fetched = fetch(lock, folder_of(options.lock), *records.source, other_trace,
                                     withdrawn, options.target_path);
  if (!fetched.ok()) {
    return absl::IsNotFound(fetched) || absl::IsFailedPrecondition(fetched) ? fetched
                                                                            : environment(fetched);
  }
  emit(options.output, {{"folder", options.target_path}, {"kernels", lock.entries.size()}},
       {{"folder", "kernels"}, {{options.target_path, concat(lock.entries.size())}}, {}});
  return kDone;
}

void add_records(CliArguments app, LockOptions* options) {
  add_database(app, &options->database);
  add_snapshot(app, &options->database);
  add_withdrawn(app, &options->withdrawn);
  add_output(app, &options->output);
}

Action declare_lock(CliArguments app) {
  auto options = std::make_shared<LockOptions>();
  app.add_option("requests", options->requests,
                 "files: suites, or lines of a workload's words, perhaps with --entry NAME, --const, "
                 "--allow, --target, --threads")
      .required();
  app.add_option("-o,--output", options->target_path, "the lock file").required();
  add_workload_options(app, &options->workload);
  app.add_flag("--frozen", options->database.frozen,
               "exit 2 if any is not tuned, and print what to tune");
  add_records(app, options.get());
  return [options] { return run_lock(*options); };
}

Action declare_fetch(CliArguments app) {
  auto options = std::make_shared<LockOptions>();
  app.add_option("--lock", options->lock, "the lock file").required();
  app.add_option("-o,--output", options->target_path, "the bundle's folder").required();
  add_records(app, options.get());
  return [options] { return run_fetch(*options); };
}

}  // namespace

const CommandGroup& lock_commands() {
  static const CommandGroup group = {80, {
      {"lock", "write down which schedule and object each workload of a build gets", declare_lock},
      {"fetch", "put what a lock file names into a folder, for builds without a database",
       declare_fetch},
  }};
  return group;
}

}  // namespace lw
