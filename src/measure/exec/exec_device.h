// A device that is a program of somebody else's (docs/exec.md): a simulator, an emulation, a board
// at the far end of a line. Times are those it says; outputs too, or, where it computes none, those
// of the target's own functional model.
//
// What the device does wrong is kUnavailable, by name, and nobody's fault but its own: it says no
// frame, dies, answers twice, another request or what was not asked, a time that is none or that no
// machine of the target can reach. One that does not answer is the candidate's timeout: nobody can
// tell a device that hangs from a program that does.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "src/measure/workers/device.h"

namespace lw {

struct Target;

// Starts the program once, and greets it. kInvalidArgument: the target is none whose programs such
// devices run; kUnavailable, kDeadlineExceeded: the device is not well.
absl::StatusOr<DeviceDriver> exec_driver(const std::string& command, const Target& target);

// "NAME RELEASE" of the device that answers; errors as above.
absl::StatusOr<std::string> exec_device_name(const std::string& command, const Target& target);

}  // namespace lw
