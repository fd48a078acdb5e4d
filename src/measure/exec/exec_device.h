// A device that is a program of somebody else's (docs/exec.md): a simulator, an emulation, a board
// at the far end of a line. By its target it is asked in frames of src/exec, or is an lw_runner
// (board_device.h). Of the first times are those that it says; outputs too, or, where it computes none,
// those of the target's own functional model.
//
// What the device does wrong is kUnavailable, by name, and nobody's fault but its own: it says no
// frame, dies, answers twice, another request or what was not asked, a time that is none or that no
// machine of the target can reach. One that does not answer is the candidate's timeout: nobody can
// tell a device that hangs from a program that does.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "src/measure/workers/device.h"
#include "tuner_db/time_kind.h"

namespace lw {

struct LocalOptions;
struct Target;

// Starts the program once, and greets it. `options`: its command, whether its clock is to be read, and
// how many threads kernels have. kUnavailable, kDeadlineExceeded: the device is not well;
// kFailedPrecondition: it has fewer processors.
absl::StatusOr<DeviceDriver> exec_driver(const LocalOptions& options, const Target& target);

// Of the device that answers, as it says itself.
struct ExecFacts {
  std::string name;                        // "npu_sim 0.9", "aarch64 Cortex-A72 6.1.0"
  TimeKind time_kind = TimeKind::kMeasured;
  std::string json;                        // an object of facts
};
// Starts it once; errors as above. `clock`: LocalOptions::exec_clock.
absl::StatusOr<ExecFacts> exec_device_facts(const std::string& command, bool clock,
                                            const Target& target);

}  // namespace lw
