#include "src/measure/simt/opencl_call.h"

#include <utility>

#include "schedules/targets/simt/simt_target.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/measure/simt/kernel_cache.h"
#include "src/measure/simt/opencl_clock.h"
#include "src/measure/simt/opencl_devices.h"

namespace lw {

OpenClCall::OpenClCall(OpenClSession* session, SimtProgram program)
    : session_(session), program_(std::move(program)) {}

OpenClCall::~OpenClCall() {
  kernels_.reset();
  for (const cl::Memory memory : buffers_.arguments) session_->release(memory);
  session_->release(buffers_.workspace);
  session_->release(buffers_.packed);
}

absl::StatusOr<std::unique_ptr<OpenClCall>> OpenClCall::load(OpenClSession* session,
                                                             SimtProgram program) {
  std::unique_ptr<OpenClCall> call(new OpenClCall(session, std::move(program)));
  RETURN_IF_ERROR(call->open());
  return call;
}

absl::Status OpenClCall::open() {
  ASSIGN_OR_RETURN(kernels_, OpenClKernels::build(session_, program_));
  for (const SimtProgram::Argument& argument : program_.arguments) {
    ASSIGN_OR_RETURN(const cl::Memory memory, session_->allocate(argument.bytes, "an argument"));
    buffers_.arguments.push_back(memory);
  }
  const auto scratch = [&](cl::Memory* memory, int64_t bytes, const char* name) -> absl::Status {
    if (bytes == 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(*memory, session_->allocate(bytes, name));
    return session_->poison(*memory, bytes);
  };
  RETURN_IF_ERROR(scratch(&buffers_.workspace, program_.workspace_bytes, "the workspace"));
  RETURN_IF_ERROR(scratch(&buffers_.packed, program_.packed_bytes, "packed operands"));
  RETURN_IF_ERROR(poison_outputs());
  return kernels_->bind(buffers_);
}

absl::Status OpenClCall::each(bool written,
                              absl::FunctionRef<absl::Status(size_t, int64_t)> visit) {
  for (size_t i = 0; i < program_.arguments.size(); ++i) {
    if (program_.arguments[i].written != written) continue;
    RETURN_IF_ERROR(visit(i, program_.arguments[i].bytes));
  }
  return absl::OkStatus();
}

// Anew for each call: what the caller has changed since is not known here.
absl::Status OpenClCall::write_inputs(void* const* arguments) {
  return each(false, [&](size_t i, int64_t bytes) {
    return session_->write(buffers_.arguments[i], arguments[i], bytes);
  });
}

absl::Status OpenClCall::read_outputs(void* const* arguments) {
  return each(true, [&](size_t i, int64_t bytes) {
    return session_->read(buffers_.arguments[i], arguments[i], bytes);
  });
}

absl::Status OpenClCall::poison_outputs() {
  return each(true, [&](size_t i, int64_t bytes) {
    return session_->poison(buffers_.arguments[i], bytes);
  });
}

absl::StatusOr<bool> OpenClCall::intact() {
  bool all = true;
  RETURN_IF_ERROR(each(true, [&](size_t i, int64_t bytes) -> absl::Status {
    ASSIGN_OR_RETURN(const bool is, session_->intact(buffers_.arguments[i], bytes));
    all = all && is;
    return absl::OkStatus();
  }));
  return all;
}

namespace {

class DrivenCall : public DrivenKernel {
 public:
  DrivenCall(std::unique_ptr<OpenClSession> session, std::unique_ptr<OpenClCall> call)
      : session_(std::move(session)), clock_(session_.get()), call_(std::move(call)) {}

  absl::Status prepack(void* const* arguments) override {
    RETURN_IF_ERROR(call_->write_inputs(arguments));
    RETURN_IF_ERROR(call_->enqueue_prepack());
    return session_->finish();
  }

  absl::Status run(void* const* arguments) override {
    RETURN_IF_ERROR(call_->write_inputs(arguments));
    RETURN_IF_ERROR(session_->finish());
    const double start_s = now();
    cl::Event first = nullptr, last = nullptr;
    absl::Status status = call_->enqueue(&first, &last);
    if (status.ok()) status = session_->finish();
    last_us_ = clock_.take(first, last, now() - start_s) * 1e6;
    RETURN_IF_ERROR(status);
    return call_->read_outputs(arguments);
  }

  double last_us() const override { return last_us_; }

 private:
  const std::unique_ptr<OpenClSession> session_;
  OpenClClock clock_;
  const std::unique_ptr<OpenClCall> call_;   // gone before its session
  double last_us_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DrivenKernel>> open_opencl_kernel(const Target& target,
                                                                 const Artifact& artifact) {
  ASSIGN_OR_RETURN(const OpenClDevice device, named_opencl_device(simt(target).device));
  ASSIGN_OR_RETURN(SimtProgram program, parse_simt_program(artifact.bytes));
  give_cache_folder();
  ASSIGN_OR_RETURN(std::unique_ptr<OpenClSession> session, OpenClSession::open(device));
  ASSIGN_OR_RETURN(std::unique_ptr<OpenClCall> call,
                   OpenClCall::load(session.get(), std::move(program)));
  return std::make_unique<DrivenCall>(std::move(session), std::move(call));
}

}  // namespace lw
