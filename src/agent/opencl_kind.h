// The row of kind "opencl": a device that a driver of this machine has.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/agent/device.h"

namespace lw {

// Facts are the names of device, driver and platform, and the device's number here.
absl::Status describe_opencl(const DeviceSpec& spec, loopwright::v1::Device* device);
std::string opencl_identity(const DeviceSpec& spec);
std::vector<std::string> opencl_locks(const DeviceSpec& spec);
absl::StatusOr<std::unique_ptr<Measurer>> opencl_measurer(const DeviceSpec& spec, const Task& task,
                                                          uint64_t seed);

}  // namespace lw
