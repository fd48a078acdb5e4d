// Kernels on an OpenCL device, called from this process, which the driver is in then: of kernels that
// were measured, whose processes are others.
#pragma once

#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "schedules/targets/target.h"
#include "src/build/build.h"
#include "src/build/simt/program.h"
#include "src/measure/run/driven.h"
#include "src/measure/simt/opencl_session.h"

namespace lw {

// A program on buffers of its own. Outlived by the session. `arguments`: the host's, one a buffer,
// inputs and then outputs; of those that are not moved null will do.
class OpenClCall {
 public:
  // All that kernels write holds poison. Errors as OpenClKernels::build and OpenClSession::allocate.
  static absl::StatusOr<std::unique_ptr<OpenClCall>> load(OpenClSession* session,
                                                          SimtProgram program);
  ~OpenClCall();
  OpenClCall(const OpenClCall&) = delete;

  const std::vector<cl::Memory>& buffers() const { return buffers_.arguments; }

  absl::Status write_inputs(void* const* arguments);
  absl::Status read_outputs(void* const* arguments);
  absl::Status poison_outputs();
  // Whether nothing was written behind an output.
  absl::StatusOr<bool> intact();

  // Behind what is in the session's queue.
  absl::Status enqueue_prepack() { return kernels_->enqueue_prepack(); }
  absl::Status enqueue(cl::Event* first = nullptr, cl::Event* last = nullptr) {
    return kernels_->enqueue(first, last);
  }

 private:
  OpenClCall(OpenClSession* session, SimtProgram program);
  absl::Status open();
  // Of the outputs, or of the inputs: their numbers and bytes.
  absl::Status each(bool written, absl::FunctionRef<absl::Status(size_t, int64_t)> visit);

  OpenClSession* const session_;
  const SimtProgram program_;
  std::unique_ptr<OpenClKernels> kernels_;
  OpenClKernels::Buffers buffers_;
};

// Errors as named_opencl_device and OpenClCall::load. REQUIRES: a target of the family; the
// artifact is for it.
absl::StatusOr<std::unique_ptr<DrivenKernel>> open_opencl_kernel(const Target& target,
                                                                 const Artifact& artifact);

}  // namespace lw
