#include "src/measure/simt/opencl_call.h"

#include <utility>

#include "schedules/targets/simt/simt_target.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/message.h"
#include "src/build/simt/program.h"
#include "src/measure/simt/kernel_cache.h"
#include "src/measure/simt/opencl_devices.h"
#include "src/measure/simt/opencl_session.h"

namespace lw {
namespace {

class OpenClCall : public DrivenKernel {
 public:
  OpenClCall(std::unique_ptr<OpenClSession> session, OpenClProgram program)
      : session_(std::move(session)), program_(std::move(program)) {}

  ~OpenClCall() override {
    kernels_.reset();
    for (const cl::Memory memory : all_) session_->release(memory);
  }

  absl::Status open() {
    ASSIGN_OR_RETURN(kernels_, OpenClKernels::build(session_.get(), program_));
    for (const OpenClProgram::Argument& argument : program_.arguments) {
      ASSIGN_OR_RETURN(const cl::Memory memory, allocate(argument.bytes, "an argument"));
      buffers_.arguments.push_back(memory);
    }
    if (program_.workspace_bytes > 0) {
      ASSIGN_OR_RETURN(buffers_.workspace, allocate(program_.workspace_bytes, "the workspace"));
    }
    if (program_.packed_bytes > 0) {
      ASSIGN_OR_RETURN(buffers_.packed, allocate(program_.packed_bytes, "packed operands"));
    }
    return kernels_->bind(buffers_);
  }

  absl::Status prepack(void* const* arguments) override {
    RETURN_IF_ERROR(upload(arguments));
    RETURN_IF_ERROR(kernels_->enqueue_prepack());
    return session_->finish();
  }

  absl::Status run(void* const* arguments) override {
    RETURN_IF_ERROR(upload(arguments));
    RETURN_IF_ERROR(session_->finish());
    const double start_s = now();
    RETURN_IF_ERROR(kernels_->enqueue());
    RETURN_IF_ERROR(session_->finish());
    last_us_ = (now() - start_s) * 1e6;
    for (size_t i = 0; i < program_.arguments.size(); ++i) {
      const OpenClProgram::Argument& argument = program_.arguments[i];
      if (!argument.written) continue;
      RETURN_IF_ERROR(session_->read(buffers_.arguments[i], arguments[i], argument.bytes));
    }
    return absl::OkStatus();
  }

  double last_us() const override { return last_us_; }

 private:
  // Anew for each call: what the caller has changed since is not known here.
  absl::Status upload(void* const* arguments) {
    for (size_t i = 0; i < program_.arguments.size(); ++i) {
      const OpenClProgram::Argument& argument = program_.arguments[i];
      if (argument.written) continue;
      RETURN_IF_ERROR(session_->write(buffers_.arguments[i], arguments[i], argument.bytes));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<cl::Memory> allocate(int64_t bytes, const char* name) {
    ASSIGN_OR_RETURN(const cl::Memory memory, session_->allocate(bytes, name));
    all_.push_back(memory);
    return memory;
  }

  const std::unique_ptr<OpenClSession> session_;
  const OpenClProgram program_;
  std::unique_ptr<OpenClKernels> kernels_;
  OpenClKernels::Buffers buffers_;
  std::vector<cl::Memory> all_;
  double last_us_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DrivenKernel>> open_opencl_kernel(const Target& target,
                                                                 const Artifact& artifact) {
  ASSIGN_OR_RETURN(const OpenClDevice device, named_opencl_device(simt(target).device));
  ASSIGN_OR_RETURN(OpenClProgram program, parse_opencl_program(artifact.bytes));
  give_cache_folder();
  ASSIGN_OR_RETURN(std::unique_ptr<OpenClSession> session, OpenClSession::open(device));
  auto call = std::make_unique<OpenClCall>(std::move(session), std::move(program));
  RETURN_IF_ERROR(call->open());
  return call;
}

}  // namespace lw
