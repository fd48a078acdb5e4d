// Our side on an OpenCL device, through what a user has: `tune` and `export`, and what they write,
// run here on a queue that others share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/tuner.h"
#include "src/build/simt/program.h"
#include "src/measure/simt/opencl_session.h"

namespace lw {

// Our kernel on buffers of its own, in which the arguments lie that it was made with.
class DeviceKernel {
 public:
  static absl::StatusOr<std::unique_ptr<DeviceKernel>> load(OpenClSession* session,
                                                            OpenClProgram program,
                                                            void* const* arguments);
  ~DeviceKernel();
  DeviceKernel(const DeviceKernel&) = delete;

  const std::vector<cl::Memory>& buffers() const { return buffers_.arguments; }
  absl::Status enqueue() { return kernels_->enqueue(); }
  // What the buffers of outputs hold, into the host's; poison goes the other way.
  absl::Status fetch(void* const* arguments);
  absl::Status spoil();

 private:
  DeviceKernel(OpenClSession* session, OpenClProgram program)
      : session_(session), program_(std::move(program)) {}
  absl::Status open(void* const* arguments);

  OpenClSession* const session_;
  const OpenClProgram program_;
  std::unique_ptr<OpenClKernels> kernels_;
  OpenClKernels::Buffers buffers_;
};

// Tunes the case on the target and exports its best: the program and what `tune` said.
struct DeviceTuned {
  OpenClProgram program;
  nlohmann::json tuning;
};
absl::StatusOr<DeviceTuned> tune_on_device(const TunerOptions& options, const BenchCase& one);

}  // namespace lw
