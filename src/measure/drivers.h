// Who measures on a target's machine, by its architecture: the table behind what local.h says of
// machines that drivers of this one have or that are simulated here.
#pragma once

#include "absl/status/statusor.h"
#include "schedules/targets/target.h"
#include "src/measure/workers/device.h"
#include "src/measure/workers/options.h"

namespace lw {

// The program that `options` name, else a driver's or a simulated machine, else this machine's
// processors. Errors are those of the driver's. Thread-safe.
absl::StatusOr<DeviceDriver> find_driver(const Target& target, const LocalOptions& options);

}  // namespace lw
