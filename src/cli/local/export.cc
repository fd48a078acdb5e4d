#include "absl/strings/str_join.h"
#include "loopwright/kernel.h"
#include "src/api/task.h"
#include "src/cli/commands.h"
#include "src/cli/service/withdrawn.h"
#include "src/client/lock.h"

namespace lw {
namespace {

struct ExportOptions {
  WorkloadOptions workload;
  DatabaseFlags database;
  WithdrawnFlags withdrawn;
  Output output;
  std::string folder, locked, lock;
};

int print(const ExportOptions& options, const std::vector<std::string>& files,
          const std::string& outcome) {
  Table table{{"file"}, {}, {}};
  for (const std::string& file : files) table.rows.push_back({file});
  emit(options.output, {{"files", files}, {"outcome", outcome}}, table,
       absl::StrJoin(files, "\n") + "\n");
  return kDone;
}

absl::StatusOr<int> run_export(const ExportOptions& options) {
  ASSIGN_OR_RETURN(const Task task, options.workload.task());
  if (!options.lock.empty() && options.locked.empty()) {
    return absl::InvalidArgumentError("--lock says what a bundle must hold; --locked names it");
  }
  if (options.withdrawn.any() && options.locked.empty()) {
    return absl::InvalidArgumentError("--withdrawn and --server are for --locked: the database "
                                      "knows what was withdrawn from it");
  }
  if (!options.locked.empty()) {
    if (options.lock.empty()) {
      options.output.note("the bundle is compared with its own copy of the lock file alone; "
                          "--lock FILE compares it with yours");
    }
    if (!options.withdrawn.any()) {
      options.output.note("nobody was asked what was withdrawn since it was locked: --server, or "
                          "--withdrawn FILE");
    }
    WithdrawnReasons withdrawn;
    RETURN_IF_ERROR(options.withdrawn.read({task.key()}, &withdrawn));
    absl::StatusOr<std::vector<std::string>> files =
        take_locked(task, options.locked, options.lock, withdrawn, options.folder);
    if (absl::IsNotFound(files.status()) || absl::IsFailedPrecondition(files.status())) {
      return files.status();
    }
    if (!files.ok()) return environment(files.status());
    return print(options, *files, "exact");
  }
  ASSIGN_OR_RETURN(const Choice choice, choose_to_run(task, options.database, options.output));
  ASSIGN_OR_RETURN(const std::vector<std::string> files,
                   environment(export_kernel(task, choice, options.folder)));
  return print(options, files, choice.outcome);
}

Action declare_export(CliArguments app) {
  auto options = std::make_shared<ExportOptions>();
  add_workload(app, &options->workload);
  add_database(app, &options->database);
  add_frozen(app, &options->database, /*runs=*/true);
  add_output(app, &options->output);
  app.add_option("--locked", options->locked,
                 "take the files from this bundle (see `fetch`) and from nowhere else");
  app.add_option("--lock", options->lock,
                 "the lock file that --locked's files must be as, not the copy in the bundle");
  add_withdrawn(app, &options->withdrawn);
  app.add_option("-o,--output", options->folder, "folder to write to").required();
  return [options] { return run_export(*options); };
}

}  // namespace

const CommandGroup& export_commands() {
  static const CommandGroup group = {70, {
      {"export", "write what a C program needs to call it, and its metadata", declare_export},
  }};
  return group;
}

}  // namespace lw
