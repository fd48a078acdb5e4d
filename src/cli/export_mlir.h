// `export --emit mlir`: a schedule for stock MLIR.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lw {

struct Choice;
class Task;

// Writes report.json and, unless the schedule is refused, payload.mlir, schedule.mlir, prelude.mlir
// and lower.sh into `folder`: their paths. kNotFound: it is refused, or `exact` and not all of it is
// kept; the report is written even then.
absl::StatusOr<std::vector<std::string>> export_mlir(const Task& task, const Choice& choice,
                                                     const std::string& folder, bool exact);

}  // namespace lw
