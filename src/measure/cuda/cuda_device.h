// Kernels on one of this machine's NVIDIA GPUs, by its driver.
#pragma once

#include "absl/status/statusor.h"
#include "schedules/targets/target.h"
#include "src/measure/workers/device.h"

namespace lw {

// On cuda_device_of() the target, whose errors it has. REQUIRES: a target of the family.
absl::StatusOr<DeviceDriver> cuda_driver(const Target& target);

}  // namespace lw
