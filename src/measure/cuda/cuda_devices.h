// NVIDIA's GPUs of this machine, as their driver describes them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "src/measure/cuda/cuda_api.h"

namespace lw {

// What stands before a device in the names of targets: "cuda:0", "cuda:h200".
inline constexpr std::string_view kCudaPrefix = "cuda:";

struct CudaDevice {
  int index = 0;                           // among those that CUDA_VISIBLE_DEVICES leaves
  std::string name;                        // the driver's; "NAME #2" where the name is there twice
  std::string uuid, bus_id;                // "GPU-8d5f..."; "MIG-..." of a slice; "0000:65:00.0"
  std::string release;                     // of the driver: "550.54.15"; "": it does not say
  uint64_t version = 0;                    // CUDA's that the driver has: 12040 is 12.4
  uint64_t major = 0, minor = 0;           // compute capability
  uint64_t units = 0, mhz = 0;             // multiprocessors, and their clock at most
  uint64_t l2_bytes = 0, memory_bytes = 0, bus_bits = 0, memory_mhz = 0;
  // Of a block, which asks for more than 48 KiB, and of a multiprocessor.
  uint64_t shared_bytes = 0, unit_shared_bytes = 0;
  uint64_t group_items = 0, unit_items = 0, unit_registers = 0, grid_groups = 0;
  uint64_t power_limit_w = 0;              // 0: not known
  bool ecc = false;                        // its memory is corrected
  bool slice = false;                      // it is a part of a divided device (MIG)
  std::string nonsense;                    // why it cannot be used; "": it can

  std::string capability() const;          // "9.0"
  // Whether it runs code for the processor, "sm_80", "sm_90a": cubins run on the same major version
  // from their minor version on, PTX on all later devices, what ends with a letter on that one
  // alone.
  bool runs_binary(std::string_view processor) const;
  bool runs_ptx(std::string_view processor) const;
  // What decides whose timings are alike.
  std::string driver_text() const;         // "CUDA 12.4, 550.54.15"
};

// Asks the driver in a process of its own, since it may crash or hang, and a process that has asked
// may fork no other that uses it. kNotFound: no driver, no device; kUnavailable: it failed, did not
// survive the question, or took longer than `limit_s`. What was found is kept for the process's
// life; LOOPWRIGHT_CUDA names another library or CUDA_VISIBLE_DEVICES other devices: it is asked
// anew. Thread-safe.
absl::StatusOr<std::vector<CudaDevice>> list_cuda_devices(double limit_s = 30);

// As find_opencl_device and named_opencl_device; "GPU-8d5f" is the device of which that is the
// beginning of the UUID.
absl::StatusOr<CudaDevice> find_cuda_device(std::string_view which);
absl::StatusOr<CudaDevice> named_cuda_device(std::string_view name);

// What an agent tells of it, as JSON: device, number, UUID, driver, whether it is a slice.
std::string cuda_facts(const CudaDevice& device);

// Which of the driver's that is, in this process, which is the driver's from now on.
absl::StatusOr<cu::DeviceId> open_cuda_device(const cu::Api& api, const CudaDevice& device);

}  // namespace lw
