#include "src/measure/cuda/cuda_device.h"

#include <stdlib.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "src/base/check.h"
#include "src/base/parallel_pool.h"
#include "src/measure/cuda/cuda_devices.h"
#include "src/measure/cuda/cuda_session.h"
#include "src/measure/cuda/cuda_target.h"
#include "src/measure/cuda/nvml.h"
#include "src/measure/simt/common/device_target.h"
#include "src/measure/simt/common/kernel_device.h"
#include "src/measure/workers/workbench.h"

namespace lw {
namespace {

// What empties the second-level cache is twice its size.
constexpr int64_t kLeastL2Flush = int64_t{8} << 20, kMostL2Flush = int64_t{512} << 20;

class CudaKernelDevice : public KernelDevice<CudaSession> {
 public:
  CudaKernelDevice(Workbench& bench, std::unique_ptr<CudaSession> session)
      : KernelDevice(bench, std::move(session)),
        nvml_(Nvml::open(this->session().device().bus_id)) {}

 protected:
  absl::StatusOr<double> sample(CudaKernels& kernels, int64_t inner) override {
    return kernels.time_calls(inner);
  }

  int64_t flush_bytes() const override {
    const uint64_t l2 = std::min(session().device().l2_bytes, uint64_t{kMostL2Flush});
    return std::clamp(2 * static_cast<int64_t>(l2), kLeastL2Flush, kMostL2Flush);
  }

  // Clocks are not locked: what they were is a fact of the samples.
  void note(Samples* samples) override {
    if (nvml_ == nullptr) return;
    const Nvml::State state = nvml_->state();
    samples->counters = {{"sm_mhz", state.sm_mhz},
                         {"power_w", state.power_w},
                         {"throttle_reasons", static_cast<double>(state.throttle_reasons)}};
  }

 private:
  const std::unique_ptr<Nvml> nvml_;
};

}  // namespace

absl::StatusOr<DeviceDriver> cuda_driver(const Target& target) {
  ASSIGN_OR_RETURN(const CudaDevice device, cuda_device_of(target));
  DeviceDriver driver;
  driver.stands_in = device.name;
  driver.shut_in = false;                  // the driver opens files and starts threads as it likes
  driver.units = units_of(target);
  driver.weighed = false;                  // what a call costs here says little of a GPU's time
  // Builders start the assembler, which no confined process may.
  driver.compiler = [](Workbench&) -> Compiler {
    return [](const Artifact& artifact) -> absl::StatusOr<Compiled> {
      return Compiled{artifact, false};
    };
  };
  driver.open = [device](Workbench& bench) -> absl::StatusOr<std::unique_ptr<Device>> {
    // What the driver compiles of candidates, of which there are thousands, nobody wants again.
    setenv("CUDA_CACHE_DISABLE", "1", /*overwrite=*/0);
    pin_to(bench.measuring);               // the driver's threads inherit it
    ASSIGN_OR_RETURN(std::unique_ptr<CudaSession> session, CudaSession::open(device));
    RETURN_IF_ERROR(protect_tensors(bench));
    return std::make_unique<CudaKernelDevice>(bench, std::move(session));
  };
  return driver;
}

}  // namespace lw
