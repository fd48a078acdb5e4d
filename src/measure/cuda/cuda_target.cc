#include "src/measure/cuda/cuda_target.h"

#include <algorithm>
#include <string>
#include <vector>

#include "src/base/check.h"
#include "src/base/message.h"
#include "src/measure/simt/common/device_target.h"

namespace lw {
namespace {

// Of what the data sheet says of memory, that copies of a good size reach.
constexpr double kMemoryReached = 0.9;
constexpr int kTransfersPerClock = 2;      // of memory whose clock drivers tell
constexpr int64_t kRegisterBytes = 4;

// What kernels for the device are written for: 9.0 has instructions that no other has; what is
// later than 8.0 compiles the PTX that is for that.
absl::StatusOr<Target> code_target(const CudaDevice& d) {
  return find_target(d.major == 9 && d.minor == 0 ? "nvidia_sm90a" : "nvidia_sm80");
}

}  // namespace

absl::StatusOr<Target> target_of_cuda(const CudaDevice& d) {
  ASSIGN_OR_RETURN(Target target, code_target(d));
  target.name = driven_target_name(kCudaPrefix, d.name);
  set_clock_and_l2(&target, d.mhz, d.l2_bytes);
  // Newer drivers say 0 for the memory's clock: then it is as fast as the built-in target's.
  if (d.bus_bits > 0 && d.memory_mhz > 0 && !target.caches.empty()) {
    const double gbytes = static_cast<double>(d.bus_bits) / 8 *
                          static_cast<double>(d.memory_mhz) * kTransfersPerClock / 1e3;
    CacheLevel& memory = target.caches.back();
    memory.read_bytes_per_cycle = memory.write_bytes_per_cycle =
        kMemoryReached * gbytes / target.ghz;
  }
  set_device_figures(
      &target, {.device = d.name,
                .units = static_cast<int64_t>(d.units),
                .group_items = static_cast<int64_t>(d.group_items),
                .unit_items = static_cast<int64_t>(std::max(d.unit_items, d.group_items)),
                .local_bytes = static_cast<int64_t>(d.shared_bytes),
                .unit_local_bytes = static_cast<int64_t>(d.unit_shared_bytes),
                .unit_register_bytes = kRegisterBytes * static_cast<int64_t>(d.unit_registers),
                .memory_bytes = static_cast<int64_t>(d.memory_bytes)});
  // As it is read again: what no target may say is said here, and by whom.
  absl::StatusOr<Target> described = parse_target(to_text(target), concat(kCudaPrefix, d.index));
  if (described.ok()) return described;
  return absl::UnavailableError(concat("the CUDA driver's description makes no target: ",
                                       std::string(described.status().message())));
}

absl::StatusOr<CudaDevice> cuda_device_of(const Target& target) {
  const std::string name = device_name_of(target);
  if (!name.empty()) return named_cuda_device(name);
  ASSIGN_OR_RETURN(const CudaDevice first, named_cuda_device(""));
  std::string missing;
  ASSIGN_OR_RETURN(const std::vector<CudaDevice> devices, list_cuda_devices());
  for (const CudaDevice& d : devices) {
    const absl::StatusOr<Target> described = d.nonsense.empty() ? target_of_cuda(d)
                                                                : absl::UnavailableError("");
    if (!described.ok()) continue;
    missing = missing_feature(target, *described);
    if (missing.empty()) return d;
  }
  return absl::NotFoundError(concat("no CUDA device here has ", missing, ", which kernels for ",
                                    target.name, " need; ", kCudaPrefix, first.index, " (",
                                    first.name, ") is of compute capability ",
                                    first.capability()));
}

absl::StatusOr<Target> cuda_target(std::string_view which) {
  ASSIGN_OR_RETURN(const CudaDevice device, find_cuda_device(which));
  return target_of_cuda(device);
}

}  // namespace lw
