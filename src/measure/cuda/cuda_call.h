// Kernels on an NVIDIA GPU, called from this process, which the driver is in then: of kernels that
// were measured, whose processes are others.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "schedules/targets/target.h"
#include "src/build/build.h"
#include "src/measure/cuda/cuda_session.h"
#include "src/measure/run/driven.h"
#include "src/measure/simt/common/kernel_call.h"

namespace lw {

using CudaCall = KernelCall<CudaSession>;

// Errors as cuda_device_of and CudaCall::load. REQUIRES: a target of the family; the artifact is
// for it.
absl::StatusOr<std::unique_ptr<DrivenKernel>> open_cuda_kernel(const Target& target,
                                                               const Artifact& artifact);

}  // namespace lw
