#include <filesystem>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "loopwright/kernel.h"
#include "src/api/task.h"
#include "src/api/words.h"
#include "src/cli/commands.h"
#include "src/cli/export_mlir.h"
#include "src/cli/service/withdrawn.h"
#include "src/client/lock.h"

namespace lw {
namespace {

struct ExportFlags {
  WorkloadOptions workload;
  DatabaseFlags database;
  WithdrawnFlags withdrawn;
  Output output;
  std::string folder, locked, lock, entry, depfile;
  std::string on_miss = "nearest", emit = "kernel";
  bool shared = false, beyond_lock = false, exact = false;
  std::vector<std::string> with;

  ExportOptions of_kernel() const { return {entry, shared, !with.empty()}; }
};

// What the files were made of, for Make and Ninja: so that a build makes them anew when one of these
// changes.
absl::Status write_depfile(const ExportFlags& options, const Task& task,
                           const std::vector<std::string>& files) {
  const auto escaped = [](const std::string& path) {
    return absl::StrReplaceAll(path, {{" ", "\\ "}, {"#", "\\#"}, {"$", "$$"}});
  };
  std::vector<std::string> inputs;
  const std::string program = file_of_words(task.workload().source_words);
  if (!program.empty()) inputs.push_back(program);
  const std::string& target = options.workload.target;
  if (target.ends_with(".json")) inputs.push_back(target);
  const bool is_locked = !options.locked.empty() || !options.lock.empty();
  if (is_locked) {
    inputs.push_back(options.lock.empty() ? options.locked + "/bundle.json" : options.lock);
  }
  if (is_locked && !options.beyond_lock) {
    // Nothing else was read.
  } else if (!options.database.snapshot.empty()) {
    inputs.push_back(options.database.snapshot);
  } else if (std::filesystem::exists(options.database.path)) {
    inputs.push_back(options.database.path);
  }
  std::string text;
  for (const std::string& file : files) text += escaped(file) + " ";
  text.back() = ':';
  for (const std::string& input : inputs) {
    text += " " + escaped(std::filesystem::absolute(input).lexically_normal().string());
  }
  return write_text(options.depfile, text + "\n");
}

absl::StatusOr<int> print(const ExportFlags& options, const Task& task,
                          const std::vector<std::string>& files,
                          const std::string& outcome) {
  if (!options.depfile.empty()) RETURN_IF_ERROR(write_depfile(options, task, files));
  Table table{{"file"}, {}, {}};
  for (const std::string& file : files) table.rows.push_back({file});
  emit(options.output, {{"files", files}, {"outcome", outcome}}, table,
       absl::StrJoin(files, "\n") + "\n");
  return kDone;
}

absl::StatusOr<int> run_export(const ExportFlags& options) {
  ASSIGN_OR_RETURN(const Task task, options.workload.task());
  if (options.emit != "mlir" && options.exact) {
    return absl::InvalidArgumentError("--exact is for --emit mlir: a kernel keeps all of a schedule");
  }
  const bool is_locked = !options.locked.empty() || !options.lock.empty();
  if (options.emit == "mlir" &&
      (options.shared || !options.with.empty() || !options.entry.empty())) {
    return absl::InvalidArgumentError("--shared, --with and --entry are of kernels: leave them out "
                                      "with --emit mlir");
  }
  if (options.emit == "mlir" && is_locked) {
    return absl::InvalidArgumentError("lock files and bundles hold kernels, no scripts for MLIR: leave "
                                      "--locked and --lock out");
  }
  if (options.withdrawn.any() && !is_locked) {
    return absl::InvalidArgumentError("--withdrawn and --server are for --locked and --lock: the "
                                      "database knows what was withdrawn from it");
  }
  if (is_locked) {
    if (!options.locked.empty() &&
        (!options.entry.empty() || options.shared || !options.with.empty())) {
      return absl::InvalidArgumentError("a bundle's files are as they were locked: --entry and "
                                        "--shared are for kernels that are built");
    }
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
        options.locked.empty()
            ? build_locked(task, options.lock, withdrawn, options.folder,
                           options.of_kernel())
            : take_locked(task, options.locked, options.lock, withdrawn, options.folder);
    const bool is_missing = absl::IsNotFound(files.status());
    if (is_missing && options.locked.empty() && !options.beyond_lock) {
      return frozen_miss(task, options.lock);
    }
    if (is_missing && !options.beyond_lock) return files.status();
    if (absl::IsFailedPrecondition(files.status())) return files.status();
    if (!is_missing) {
      RETURN_IF_ERROR(environment(files.status()));
      return print(options, task, *files, "exact");
    }
  }
  DatabaseFlags database = options.database;
  database.frozen = database.frozen || options.on_miss == "error";
  database.only_own = options.on_miss == "default";
  if (options.emit == "mlir") {            // nothing of ours runs: no check is needed
    ASSIGN_OR_RETURN(const Choice choice, choose_and_say(task, database, options.output));
    ASSIGN_OR_RETURN(const std::vector<std::string> files,
                     export_mlir(task, choice, options.folder, options.exact));
    return print(options, task, files, choice.outcome);
  }
  ASSIGN_OR_RETURN(const Choice choice, choose_to_run(task, database, options.output));
  ASSIGN_OR_RETURN(const std::vector<std::string> files,
                   environment(export_kernel(task, choice, options.folder,
                                             options.of_kernel())));
  return print(options, task, files, choice.outcome);
}

Action declare_export(CliArguments app) {
  auto options = std::make_shared<ExportFlags>();
  add_workload(app, &options->workload);
  add_database(app, &options->database);
  add_frozen(app, &options->database, /*runs=*/true);
  add_output(app, &options->output);
  app.add_option("--locked", options->locked,
                 "take the files from this bundle (see `fetch`) and from nowhere else");
  app.add_option("--lock", options->lock,
                 "the lock file that --locked's files must be as, not the copy in the bundle; without "
                 "--locked, the kernel is generated from it again and compared");
  add_withdrawn(app, &options->withdrawn);
  add_snapshot(app, &options->database);
  app.add_option("--entry", options->entry,
                 "the kernel's symbol and its files' name (default: the op's), so that several link "
                 "into one program");
  app.add_option("--on-miss", options->on_miss,
                 "of what is not tuned: error (as --frozen), nearest, what was tuned for something "
                 "near to it, or default, what is derived without a measurement")
      .capture_default_str()
      .one_of({"error", "nearest", "default"});
  app.add_flag("--beyond-lock", options->beyond_lock,
               "what --lock lacks is looked up as if there were none");
  app.add_flag("--shared", options->shared, "NAME.so too, for dlopen()");
  app.add_option("--with", options->with,
                 "tvm-ffi: NAME.so has a function of it too, for NumPy, PyTorch, JAX, TVM")
      .one_of({"tvm-ffi"});
  app.add_option("--depfile", options->depfile,
                 "write there, for Make and Ninja, which files the result depends on");
  app.add_option("--emit", options->emit,
                 "kernel: for C; mlir: linalg operations and a transform script for MLIR 19")
      .capture_default_str().one_of({"kernel", "mlir"});
  app.add_flag("--exact", options->exact,
               "with --emit mlir: exit 2 where the script would not keep all of the schedule");
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
