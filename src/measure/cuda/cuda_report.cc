#include "src/measure/cuda/cuda_report.h"

#include <memory>
#include <string>

#include "src/base/check.h"
#include "src/base/message.h"
#include "src/build/simt/ptx/assembler/assemble.h"
#include "src/measure/cuda/cuda_devices.h"
#include "src/measure/cuda/cuda_target.h"
#include "src/measure/cuda/nvml.h"

namespace lw {
namespace {

const char* yes_or_no(bool yes) { return yes ? "yes" : "no"; }

std::string assembler_text() {
  const absl::StatusOr<std::string> path = find_ptxas();
  if (!path.ok()) return concat("none: ", std::string(path.status().message()));
  const std::string version = ptxas_version();
  return version.empty() ? concat(*path, " does not run") : concat("ptxas ", version);
}

}  // namespace

absl::StatusOr<DrivenReport> report_cuda(const Target& target) {
  ASSIGN_OR_RETURN(const CudaDevice device, cuda_device_of(target));
  ASSIGN_OR_RETURN(const Target described, target_of_cuda(device));
  DrivenReport report;
  report.device = device.name;
  report.driver = device.driver_text();
  const CacheLevel& memory = described.caches.back();
  report.figures = {
      {"clock, at most", static_cast<double>(device.mhz), "MHz"},
      {"memory", static_cast<double>(device.memory_bytes) / 1e9, "GB"},
      {"memory, copies reach", memory.read_bytes_per_cycle * described.ghz, "GB/s"},
      {"second-level cache", static_cast<double>(device.l2_bytes) / (1 << 20), "MiB"},
      {"shared memory, a block", static_cast<double>(device.shared_bytes) / (1 << 10), "KiB"}};
  report.facts = {{"compute capability", device.capability()},
                  {"multiprocessors", concat(device.units)},
                  {"memory is corrected", yes_or_no(device.ecc)},
                  {"slice of a device", yes_or_no(device.slice)},
                  {"assembler", assembler_text()}};
  const std::unique_ptr<Nvml> nvml = Nvml::open(device.bus_id);
  if (nvml == nullptr) {
    report.facts.push_back({"clocks now", "not known: libnvidia-ml.so.1 is not there"});
    return report;
  }
  const Nvml::State state = nvml->state();
  report.figures.insert(report.figures.end(),
                        {{"clock, now", state.sm_mhz, "MHz"},
                         {"power, now", state.power_w, "W"},
                         {"power, at most", static_cast<double>(device.power_limit_w), "W"}});
  const std::string held = Nvml::held_by(state.throttle_reasons);
  report.facts.push_back({"clocks held by", held.empty() ? "nothing" : held});
  return report;
}

}  // namespace lw
