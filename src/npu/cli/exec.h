// `npu_sim exec`: the simulator as an exec device (docs/exec.md), whose programs are modules
// (src/npu/module.h) of any configuration.
#pragma once

#include "absl/status/status.h"

namespace lw::npu {

// Answers what comes until the input ends. kInvalidArgument: what comes is no frame; kUnavailable:
// nobody reads the answers.
absl::Status serve_exec(int in, int out);

}  // namespace lw::npu
