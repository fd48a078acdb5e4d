#include "src/measure/simt/opencl_call.h"

#include <utility>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/build/simt/program.h"
#include "src/measure/simt/kernel_cache.h"
#include "src/measure/simt/opencl_clock.h"
#include "src/measure/simt/opencl_device.h"
#include "src/measure/simt/opencl_devices.h"

namespace lw {
namespace {

class OpenClDrivenCall : public DrivenCall<OpenClSession> {
 public:
  OpenClDrivenCall(std::unique_ptr<OpenClSession> session, std::unique_ptr<OpenClCall> call)
      : DrivenCall(std::move(session), std::move(call)), clock_(session_.get()) {}

 protected:
  absl::StatusOr<double> call_us(OpenClSession& session, OpenClCall& call) override {
    const double start_s = now();
    cl::Event first = nullptr, last = nullptr;
    absl::Status status = call.enqueue(&first, &last);
    if (status.ok()) status = session.finish();
    const double us = clock_.take(first, last, now() - start_s) * 1e6;
    RETURN_IF_ERROR(status);
    return us;
  }

 private:
  OpenClClock clock_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DrivenKernel>> open_opencl_kernel(const Target& target,
                                                                 const Artifact& artifact) {
  ASSIGN_OR_RETURN(const OpenClDevice device, opencl_device_of(target));
  ASSIGN_OR_RETURN(SimtProgram program, parse_simt_program(artifact.bytes));
  give_cache_folder();
  ASSIGN_OR_RETURN(std::unique_ptr<OpenClSession> session, OpenClSession::open(device));
  ASSIGN_OR_RETURN(std::unique_ptr<OpenClCall> call,
                   OpenClCall::load(session.get(), std::move(program)));
  return std::make_unique<OpenClDrivenCall>(std::move(session), std::move(call));
}

}  // namespace lw
