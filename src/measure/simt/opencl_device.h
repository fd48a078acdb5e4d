// Kernels on an OpenCL device of this machine, by its driver.
#pragma once

#include "schedules/targets/target.h"
#include "src/measure/simt/opencl_devices.h"
#include "src/measure/workers/device.h"

namespace lw {

// On the device that the target names, else on the first there is. kNotFound, kUnavailable: as
// named_opencl_device. REQUIRES: a target of the family.
absl::StatusOr<DeviceDriver> opencl_driver(const Target& target);
// That device.
absl::StatusOr<OpenClDevice> opencl_device_of(const Target& target);

}  // namespace lw
