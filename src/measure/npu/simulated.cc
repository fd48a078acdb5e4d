#include "src/measure/npu/simulated.h"

#include <algorithm>

#include "schedules/targets/npu/npu_target.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/npu/module.h"
#include "src/npu/timing/timing.h"

namespace lw {

Limits simulated_limits(const Target& target) {
  constexpr double kNoLimit = 1e9;         // of what takes no time
  const npu::Config& config = npu_config(target);
  const double ghz = config.clock_mhz / 1e3;
  Limits limits;
  limits.peak_gflops = 2 * static_cast<double>(config.mx.rows * config.mx.columns) * ghz;
  limits.bandwidth_gbytes = std::min(kNoLimit, npu::peak_bytes_per_cycle(config) * ghz);
  return limits;
}

absl::StatusOr<double> simulated_us(const Artifact& artifact) {
  ASSIGN_OR_RETURN(const npu::Module module, npu::read_module(artifact.bytes));
  ASSIGN_OR_RETURN(const npu::Timing timing, npu::simulate(module.config, module.program));
  if (timing.ending == npu::Ending::kDone) return timing.ns / 1000;
  return absl::DataLossError(concat(name_of(timing.ending), ": ", timing.blocked));
}

}  // namespace lw
