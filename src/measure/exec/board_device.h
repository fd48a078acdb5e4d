// Exec devices of processors: an lw_runner behind a command, at the far end of `ssh` on a board that
// holds nothing else. It runs the target's kernels and times them by its own clock; where it finds
// that an emulator runs it, its clock is not read, and times are the cost model's.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "src/measure/exec/exec_device.h"
#include "src/measure/workers/device.h"

namespace lw {

struct LocalOptions;
struct Target;

// As exec_driver and exec_device_facts.
absl::StatusOr<DeviceDriver> board_driver(const LocalOptions& options, const Target& target);
absl::StatusOr<ExecFacts> board_facts(const std::string& command, bool clock, const Target& target);

}  // namespace lw
