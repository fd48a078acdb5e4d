// An NVIDIA GPU of this machine as a target.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "schedules/targets/target.h"
#include "src/measure/cuda/cuda_devices.h"

namespace lw {

// `which`: as find_cuda_device takes it, whose errors it has. The built-in target of what its
// kernels are written for, with the numbers that the driver says of the device: results are stored
// for its text.
absl::StatusOr<Target> cuda_target(std::string_view which);
// The same of a device that was found.
absl::StatusOr<Target> target_of_cuda(const CudaDevice& device);


// The device that the target names, or, where it names none, the first that runs kernels for it.
// Errors as named_cuda_device. REQUIRES: a target of the family.
absl::StatusOr<CudaDevice> cuda_device_of(const Target& target);

}  // namespace lw
