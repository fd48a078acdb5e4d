// The machine that this process runs on, as a Target. Internal to schedules/targets/cpu/family.cc.
#pragma once

#include "absl/status/statusor.h"
#include "schedules/targets/target.h"

namespace lw {

// The built-in target that fits best, with this machine's features, CPU, caches and cores. The same
// on every call on one machine. kUnimplemented where the machine is of no family we know.
absl::StatusOr<Target> host_target();

}  // namespace lw
