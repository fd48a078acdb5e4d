#include "src/measure/drivers.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "schedules/targets/named_machine.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/build/simt/program.h"
#include "src/measure/cpu/devices.h"
#include "src/measure/cuda/cuda_call.h"
#include "src/measure/cuda/cuda_device.h"
#include "src/measure/cuda/cuda_devices.h"
#include "src/measure/cuda/cuda_report.h"
#include "src/measure/cuda/cuda_target.h"
#include "src/measure/exec/exec_device.h"
#include "src/measure/local.h"
#include "src/measure/npu/npu_device.h"
#include "src/measure/npu/simulation.h"
#include "src/measure/simt/common/device_target.h"
#include "src/measure/simt/opencl_call.h"
#include "src/measure/simt/opencl_device.h"
#include "src/measure/simt/opencl_devices.h"
#include "src/measure/simt/opencl_probe.h"
#include "src/measure/simt/opencl_target.h"

namespace lw {
namespace {

absl::StatusOr<DrivenReport> report_opencl(const Target& target) {
  ASSIGN_OR_RETURN(const OpenClDevice device, opencl_device_of(target));
  ASSIGN_OR_RETURN(const OpenClProbe probe, probe_opencl(device));
  DrivenReport report;
  report.device = device.name;
  report.driver = concat(device.platform, ", ", device.driver);
  for (const OpenClProbe::Copy& copy : probe.copies) {
    report.figures.push_back({concat("copy, vectors of ", copy.width), copy.gbytes, "GB/s"});
  }
  if (const std::optional<OpenClProbe::Read> cache = shared_cache(probe)) {
    report.figures.push_back(
        {concat("reads, cache of ", cache->bytes >> 10, " KiB"), cache->gbytes, "GB/s"});
  }
  report.figures.insert(
      report.figures.end(),
      {{"multiply-adds, f32", probe.fma_gflops, "GFLOP/s"},
       {"local memory, read", probe.local_gbytes, "GB/s"},
       {concat("barrier, group of ", probe.barrier_items), probe.barrier_us, "us"},
       {"launch", probe.launch_us, "us"},
       {"group", probe.group_us, "us"}});
  report.took_s = probe.took_s;
  report.problem = std::string(keep_probe(device, probe).message());
  return report;
}

// The devices of targets that are not this machine's processors, by architecture.
constexpr struct {
  std::string_view architecture;
  absl::StatusOr<DeviceDriver> (*driver)(const Target& target);
  absl::StatusOr<Simulation> (*simulate)(const Artifact& artifact);  // null: it is a real one
  // Null: it is no driver's.
  absl::StatusOr<std::unique_ptr<DrivenKernel>> (*call)(const Target& target,
                                                        const Artifact& artifact);
  // Null: it is simulated.
  absl::StatusOr<DrivenReport> (*probe)(const Target& target);
} kDrivers[] = {
    {kNpuArchitecture,
     [](const Target&) -> absl::StatusOr<DeviceDriver> { return npu_driver(); }, simulate_npu,
     nullptr, nullptr},
    {kOpenClArchitecture, opencl_driver, nullptr, open_opencl_kernel, report_opencl},
    {kNvidiaArchitecture, cuda_driver, nullptr, open_cuda_kernel, report_cuda},
};

auto find_row(const Target& target) {
  return std::find_if(std::begin(kDrivers), std::end(kDrivers), [&](const auto& row) {
    return row.architecture == target.architecture;
  });
}

}  // namespace

absl::StatusOr<DeviceDriver> find_driver(const Target& target, const LocalOptions& options) {
  if (!options.exec.empty()) return exec_driver(options, target);
  const auto row = find_row(target);
  if (row == std::end(kDrivers)) return host_driver();
  return row->driver(target);
}

bool is_simulated(const Target& target) {
  const auto row = find_row(target);
  return row != std::end(kDrivers) && row->simulate != nullptr;
}

absl::StatusOr<Target> named_machine(std::string_view name) {
  if (name.starts_with(kCudaPrefix)) return cuda_target(name.substr(kCudaPrefix.size()));
  if (!name.starts_with(kOpenClPrefix)) return find_target(name);
  return opencl_target(name.substr(kOpenClPrefix.size()));
}

absl::StatusOr<std::vector<DrivenMachine>> driven_machines() {
  std::vector<DrivenMachine> machines;
  const absl::StatusOr<std::vector<CudaDevice>> gpus = list_cuda_devices();
  if (gpus.ok()) {
    for (const CudaDevice& d : *gpus) {
      machines.push_back({concat(kCudaPrefix, d.index), d.name, d.driver_text(),
                          cuda_target(concat(d.index))});
    }
  } else if (!absl::IsNotFound(gpus.status())) {
    // Of others' devices it says nothing.
    machines.push_back({std::string(kCudaPrefix), "", "", gpus.status()});
  }
  const absl::StatusOr<std::vector<OpenClDevice>> devices = list_opencl_devices();
  if (absl::IsNotFound(devices.status())) return machines;
  RETURN_IF_ERROR(devices.status());
  for (const OpenClDevice& d : *devices) {
    machines.push_back({concat(kOpenClPrefix, d.index), d.name, concat(d.platform, ", ", d.driver),
                        opencl_target(concat(d.index))});
  }
  return machines;
}

absl::Status check_driven(const Target& target) {
  const auto row = find_row(target);
  if (row == std::end(kDrivers)) return absl::UnimplementedError("no device of that kind");
  return row->driver(target).status();
}

bool is_estimated(const Target& target, const absl::Status& driven) {
  return target.architecture == kNvidiaArchitecture && device_name_of(target).empty() &&
         absl::IsNotFound(driven);
}

bool is_estimated(const Target& target) {
  return target.architecture == kNvidiaArchitecture && is_estimated(target, check_driven(target));
}

absl::StatusOr<int> driven_units(const Target& target) {
  const auto row = find_row(target);
  if (row == std::end(kDrivers)) return absl::UnimplementedError("no device of that kind");
  ASSIGN_OR_RETURN(const DeviceDriver driver, row->driver(target));
  return std::max(driver.units, 1);
}

absl::StatusOr<DrivenReport> probe_driven(const Target& target) {
  RETURN_IF_ERROR(check_driven(target));
  const auto row = find_row(target);
  CHECK(row->probe != nullptr);
  return row->probe(target);
}

absl::StatusOr<std::unique_ptr<DrivenKernel>> open_driven(const Target& target,
                                                          const Artifact& artifact) {
  const auto row = find_row(target);
  CHECK(row != std::end(kDrivers) && row->call != nullptr);
  return row->call(target, artifact);
}

absl::StatusOr<Simulation> simulate(const Target& target, const Artifact& artifact) {
  CHECK(is_simulated(target));
  return find_row(target)->simulate(artifact);
}

}  // namespace lw
