// A program of many stages, searched by its parts (schedules/parts.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/api/task.h"
#include "src/search/search.h"

namespace lw {

struct PartsResult {
  int parts = 0, trials = 0, failed = 0;   // parts: different ones
  std::vector<std::string> traces;         // of the whole, from the best of each part; may be empty
};

// Tunes the parts of the program as `scheduled` groups its stages, each measured on its own, in
// options.seconds and with options.trials together; those that are equal but for names once. What is
// found is kept nowhere else. Nothing where there is but one part. The calling thread may run where
// the measurements may.
absl::StatusOr<PartsResult> tune_parts(const Task& task, const Trace& scheduled,
                                       const SearchOptions& options, const TuneHooks& hooks);

}  // namespace lw
