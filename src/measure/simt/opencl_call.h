// Kernels on an OpenCL device, called from this process, which the driver is in then: of kernels that
// were measured, whose processes are others.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "schedules/targets/target.h"
#include "src/build/build.h"
#include "src/measure/run/driven.h"
#include "src/measure/simt/common/kernel_call.h"
#include "src/measure/simt/opencl_session.h"

namespace lw {

// `enqueue` takes events as OpenClKernels' does.
using OpenClCall = KernelCall<OpenClSession>;

// Errors as named_opencl_device and OpenClCall::load. REQUIRES: a target of the family; the
// artifact is for it.
absl::StatusOr<std::unique_ptr<DrivenKernel>> open_opencl_kernel(const Target& target,
                                                                 const Artifact& artifact);

}  // namespace lw
