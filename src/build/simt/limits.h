// What a machine of many threads cannot run at all. Internal to src/build. Pure; thread-safe.
#pragma once

#include "absl/status/status.h"
#include "schedules/targets/simt/simt_target.h"
#include "src/kernel/kernel.h"

namespace lw {

// kInvalidArgument: buffers, vectors, types or a group's memory beyond the target's.
absl::Status check_simt_limits(const Kernel& kernel, const SimtTarget& target);

}  // namespace lw
