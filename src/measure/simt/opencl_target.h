// A device that OpenCL has here, as a target.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "schedules/targets/target.h"

namespace lw {

// What stands before a device in the names of targets: "opencl:0", "opencl:mali".
inline constexpr std::string_view kOpenClPrefix = "opencl:";

// `which`: as find_opencl_device takes it, whose errors it has. Of what the driver says, and of what a
// probe has once measured, which is kept (opencl_probe.h): results are stored for its text. What
// neither says is the host's where the device is its processors, else that of the built-in target
// opencl_gpu.
absl::StatusOr<Target> opencl_target(std::string_view which);

}  // namespace lw
