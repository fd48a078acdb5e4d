#include "src/cli/export_mlir.h"

#include <filesystem>
#include <utility>

#include "loopwright/task.h"
#include "schedules/steps.h"
#include "src/api/task.h"
#include "src/cli/common.h"
#include "src/export/mlir.h"

namespace lw {
namespace {

// Not the code: the file system's mistake is not ours.
absl::Status write_part(const std::string& folder, const char* name, const std::string& text,
                   std::vector<std::string>* files) {
  files->push_back((std::filesystem::path(folder) / name).string());
  return environment(write_text(files->back(), text));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> export_mlir(const Task& task, const Choice& choice,
                                                     const std::string& folder, bool exact) {
  ASSIGN_OR_RETURN(const Trace trace, parse_trace(choice.trace));
  const MlirFunction function = mlir_function(*choice.nest, trace, task.program()->name);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return environment(absl::UnavailableError(concat("cannot make ", folder, ": ", error.message())));
  std::vector<std::string> files;
  RETURN_IF_ERROR(write_part(folder, "report.json", mlir_report(function).dump(2) + "\n", &files));
  if (!function.refused.empty()) {
    return absl::NotFoundError(concat("there is no transform script for this schedule: ",
                                      function.refused, "; ", files[0], " says more, and `show "
                                      "--stage nest --json` has the schedule as facts"));
  }
  if (exact && !is_exact(function)) {
    return absl::NotFoundError(concat("the transform script would not keep all of the schedule (",
                                      files[0], " says what), and --exact allows nothing else"));
  }
  RETURN_IF_ERROR(write_part(folder, "payload.mlir", payload_module({function}), &files));
  RETURN_IF_ERROR(write_part(folder, "schedule.mlir", schedule_module({function}), &files));
  RETURN_IF_ERROR(write_part(folder, "prelude.mlir", mlir_prelude(), &files));
  RETURN_IF_ERROR(write_part(folder, "lower.sh", mlir_lower_script(), &files));
  std::filesystem::permissions(files.back(), std::filesystem::perms::owner_exec,
                               std::filesystem::perm_options::add, error);
  return files;
}

}  // namespace lw
