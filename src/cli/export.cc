#include "absl/strings/str_join.h"
#include "src/cli/commands.h"

namespace lw {
namespace {

struct ExportOptions {
  WorkloadOptions workload;
  DatabaseOptions database;
  Output output;
  std::string folder;
};

absl::StatusOr<int> run_export(const ExportOptions& options) {
  ASSIGN_OR_RETURN(const Task task, options.workload.task());
  ASSIGN_OR_RETURN(const Choice choice, choose_and_say(task, options.database, options.output));
  ASSIGN_OR_RETURN(const std::vector<std::string> files,
                   environment(export_kernel(task, choice, options.folder)));
  Table table{{"file"}, {}, {}};
  for (const std::string& file : files) table.rows.push_back({file});
  emit(options.output, {{"files", files}, {"outcome", choice.outcome}}, table,
       absl::StrJoin(files, "\n") + "\n");
  return kDone;
}

}  // namespace

Action export_command(CLI::App& app) {
  auto options = std::make_shared<ExportOptions>();
  add_workload(app, &options->workload);
  add_database(app, &options->database);
  add_frozen(app, &options->database);
  add_output(app, &options->output);
  app.add_option("-o,--output", options->folder, "folder to write to")->required();
  return [options] { return run_export(*options); };
}

}  // namespace lw
