// The row of kind "cuda": an NVIDIA GPU of this machine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/agent/device.h"

namespace lw {

// Facts are those of cuda_facts().
absl::Status describe_cuda_device(const DeviceSpec& spec, loopwright::v1::Device* device);
std::string cuda_identity(const DeviceSpec& spec);
std::vector<std::string> cuda_locks(const DeviceSpec& spec);
absl::StatusOr<std::unique_ptr<Measurer>> cuda_measurer(const DeviceSpec& spec, const Task& task,
                                                        uint64_t seed);

}  // namespace lw
