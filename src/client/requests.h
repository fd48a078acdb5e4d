// What shall be tuned or locked, as files. Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "src/expr/language/text.h"

namespace lw {

class Task;

// A suite's JSON, or a line each ('#' starts a comment): a workload's words and what `tune` takes with
// them, --const, --allow, --target and --threads; and --entry, the kernel's symbol. kInvalidArgument
// says which line.
absl::StatusOr<std::vector<SuiteCase>> read_requests(const std::string& path);
// The same of a text; `name` stands for the file.
absl::StatusOr<std::vector<SuiteCase>> parse_requests(std::string_view text,
                                                      const std::string& name);
// The JSON that `tune --suite` reads, of these tasks, with the command line that tunes them: their
// programs, so that it means the same wherever it is read.
std::string request_file(const std::vector<Task>& tasks);

}  // namespace lw
