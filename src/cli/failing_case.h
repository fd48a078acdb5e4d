// A candidate that failed, as a folder that repeats it: program.te, schedule.txt, and case.json with
// the target, the threads, the inputs' seed, the verdict and its detail.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "loopwright/task.h"
#include "src/cli/common.h"
#include "tuner_db/failures.h"

namespace lw {

// FOLDER/CLASS for the example of each class; `seed`: of the measurer that saw it.
absl::Status write_failing_cases(const Task& task, const std::vector<FailureClass>& failures,
                                 uint64_t seed, const std::string& folder);

// Builds the case's kernel and checks it, in the workers that `tune` uses; says what it was and
// what it is. kDone if it passes now, else kNotValid.
absl::StatusOr<int> repeat_failing_case(const std::string& folder, const Output& output);

}  // namespace lw
