#include "src/measure/cuda/cuda_call.h"

#include <utility>

#include "src/base/check.h"
#include "src/build/simt/program.h"
#include "src/measure/cuda/cuda_devices.h"
#include "src/measure/cuda/cuda_target.h"

namespace lw {
namespace {

class CudaDrivenCall : public DrivenCall<CudaSession> {
 public:
  using DrivenCall::DrivenCall;

 protected:
  absl::StatusOr<double> call_us(CudaSession& session, CudaCall& call) override {
    ASSIGN_OR_RETURN(const double s, session.time([&] { return call.enqueue(); }));
    return s * 1e6;
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<DrivenKernel>> open_cuda_kernel(const Target& target,
                                                               const Artifact& artifact) {
  ASSIGN_OR_RETURN(const CudaDevice device, cuda_device_of(target));
  ASSIGN_OR_RETURN(SimtProgram program, parse_simt_program(artifact.bytes));
  ASSIGN_OR_RETURN(std::unique_ptr<CudaSession> session, CudaSession::open(device));
  ASSIGN_OR_RETURN(std::unique_ptr<CudaCall> call,
                   CudaCall::load(session.get(), std::move(program)));
  return std::make_unique<CudaDrivenCall>(std::move(session), std::move(call));
}

}  // namespace lw
