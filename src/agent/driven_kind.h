// What the kinds of devices that a driver of this machine has share.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "schedules/targets/target.h"
#include "src/agent/device.h"

namespace lw {

// On the device that describes itself so. kFailedPrecondition: the task is for another one.
absl::StatusOr<std::unique_ptr<Measurer>> driven_measurer(const Target& device, const Task& task,
                                                          uint64_t seed);

}  // namespace lw
