// A program of launches called from this process, which the driver is in then: of kernels that were
// measured, whose processes are others. Whichever driver it is: a Session is as KernelDevice's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/check.h"
#include "src/build/simt/program.h"
#include "src/measure/run/driven.h"

namespace lw {

// A program on buffers of its own. Outlived by the session. `arguments`: the host's, one a buffer,
// inputs and then outputs; of those that are not moved null will do. Thread-compatible.
template <class Session>
class KernelCall {
 public:
  using Memory = typename Session::Memory;
  using Kernels = typename Session::Kernels;

  // All that kernels write holds poison. Errors as Kernels::build and Session::allocate.
  static absl::StatusOr<std::unique_ptr<KernelCall>> load(Session* session, SimtProgram program) {
    std::unique_ptr<KernelCall> call(new KernelCall(session, std::move(program)));
    RETURN_IF_ERROR(call->open());
    return call;
  }

  ~KernelCall() {
    kernels_.reset();
    for (const Memory memory : buffers_.arguments) session_->release(memory);
    session_->release(buffers_.workspace);
    session_->release(buffers_.packed);
  }
  KernelCall(const KernelCall&) = delete;

  const std::vector<Memory>& buffers() const { return buffers_.arguments; }

  // Anew for each call: what the caller has changed since is not known here.
  absl::Status write_inputs(void* const* arguments) {
    return each(false, [&](size_t i, int64_t bytes) {
      return session_->write(buffers_.arguments[i], arguments[i], bytes);
    });
  }

  absl::Status read_outputs(void* const* arguments) {
    return each(true, [&](size_t i, int64_t bytes) {
      return session_->read(buffers_.arguments[i], arguments[i], bytes);
    });
  }

  absl::Status poison_outputs() {
    return each(true, [&](size_t i, int64_t bytes) {
      return session_->poison(buffers_.arguments[i], bytes);
    });
  }

  // Whether nothing was written behind an output.
  absl::StatusOr<bool> intact() {
    bool all = true;
    RETURN_IF_ERROR(each(true, [&](size_t i, int64_t bytes) -> absl::Status {
      ASSIGN_OR_RETURN(const bool is, session_->intact(buffers_.arguments[i], bytes));
      all = all && is;
      return absl::OkStatus();
    }));
    return all;
  }

  // Behind what is in the session's queue. `events`: as Kernels::enqueue takes them.
  absl::Status enqueue_prepack() { return kernels_->enqueue_prepack(); }
  template <class... Events>
  absl::Status enqueue(Events... events) {
    return kernels_->enqueue(events...);
  }

 private:
  KernelCall(Session* session, SimtProgram program)
      : session_(session), program_(std::move(program)) {}

  absl::Status open() {
    ASSIGN_OR_RETURN(kernels_, Kernels::build(session_, program_));
    for (const SimtProgram::Argument& argument : program_.arguments) {
      ASSIGN_OR_RETURN(const Memory memory, session_->allocate(argument.bytes, "an argument"));
      buffers_.arguments.push_back(memory);
    }
    const auto scratch = [&](Memory* memory, int64_t bytes, const char* name) -> absl::Status {
      if (bytes == 0) return absl::OkStatus();
      ASSIGN_OR_RETURN(*memory, session_->allocate(bytes, name));
      return session_->poison(*memory, bytes);
    };
    RETURN_IF_ERROR(scratch(&buffers_.workspace, program_.workspace_bytes, "the workspace"));
    RETURN_IF_ERROR(scratch(&buffers_.packed, program_.packed_bytes, "packed operands"));
    RETURN_IF_ERROR(poison_outputs());
    return kernels_->bind(buffers_);
  }

  // Of the outputs, or of the inputs: their numbers and bytes.
  absl::Status each(bool written, absl::FunctionRef<absl::Status(size_t, int64_t)> visit) {
    for (size_t i = 0; i < program_.arguments.size(); ++i) {
      if (program_.arguments[i].written != written) continue;
      RETURN_IF_ERROR(visit(i, program_.arguments[i].bytes));
    }
    return absl::OkStatus();
  }

  Session* const session_;
  const SimtProgram program_;
  std::unique_ptr<Kernels> kernels_;
  typename Kernels::Buffers buffers_;
};

// With its session, for who calls it again and again.
template <class Session>
class DrivenCall : public DrivenKernel {
 public:
  DrivenCall(std::unique_ptr<Session> session, std::unique_ptr<KernelCall<Session>> call)
      : session_(std::move(session)), call_(std::move(call)) {}

  absl::Status prepack(void* const* arguments) override {
    RETURN_IF_ERROR(call_->write_inputs(arguments));
    RETURN_IF_ERROR(call_->enqueue_prepack());
    return session_->finish();
  }

  absl::Status run(void* const* arguments) override {
    RETURN_IF_ERROR(call_->write_inputs(arguments));
    RETURN_IF_ERROR(session_->finish());
    ASSIGN_OR_RETURN(last_us_, call_us(*session_, *call_));
    return call_->read_outputs(arguments);
  }

  double last_us() const override { return last_us_; }

 protected:
  // One call, and the microseconds that it took.
  virtual absl::StatusOr<double> call_us(Session& session, KernelCall<Session>& call) = 0;

  const std::unique_ptr<Session> session_;

 private:
  const std::unique_ptr<KernelCall<Session>> call_;  // gone before its session
  double last_us_ = 0;
};

}  // namespace lw
