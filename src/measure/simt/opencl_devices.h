// The OpenCL devices of this machine, as their drivers describe them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "src/measure/simt/opencl_api.h"

namespace lw {

struct OpenClDevice {
  int index = 0;                           // among all devices of all platforms, as the loader lists
  std::string name;                        // the driver's; "NAME #2" where the name is there twice
  std::string platform, vendor, version, driver, extensions;
  uint64_t type = 0;                       // cl::kDeviceType...
  uint64_t units = 0, group_items = 0, mhz = 0, address_bits = 0, buffer_bytes = 0,
           memory_bytes = 0, line_bytes = 0, cache_bytes = 0, local_bytes = 0, float_lanes = 0;
  bool local_real = false, fp64 = false, half = false;
  std::vector<uint64_t> sub_groups;        // sizes that a kernel may ask for
  // NVIDIA's, of cl_nv_device_attribute_query: 90 for 9.0, and items in step. 0: it does not say.
  uint64_t capability_nv = 0, warp_nv = 0;
  std::string nonsense;                    // that the driver says of it; "": it can be used

  bool has_extension(std::string_view word) const;
  bool is_processor() const { return (type & cl::kDeviceTypeCpu) != 0; }
  // When a kernel is first run, and not when its program is built; into files, for later processes.
  bool compiles_late() const { return platform == "Portable Computing Language"; }
  // What decides whose binaries it takes.
  std::string release() const { return platform + ", " + name + ", " + version + ", " + driver; }
};

// Asks the drivers in a process of its own, since they may crash, hang or eat memory; what it has
// said by then holds. kNotFound: no loader, no platform, no device; kUnavailable: they died of the
// question, or took longer than `limit_s`. What was found is kept for the process's life; LOOPWRIGHT_OPENCL
// named another library: it is asked anew. Thread-safe.
absl::StatusOr<std::vector<OpenClDevice>> list_opencl_devices(double limit_s = 20);

// "0": by its index; else by a part of its name in whatever case. kNotFound and kInvalidArgument
// (several) list those there are; kUnavailable: it is not to be used. "": the first that is.
absl::StatusOr<OpenClDevice> find_opencl_device(std::string_view which);
// As a target has it (SimtTarget::device): the whole name; "": any.
absl::StatusOr<OpenClDevice> named_opencl_device(std::string_view name);

// What an agent tells of it, as JSON: the names of device, driver and platform, and its number here.
std::string opencl_facts(const OpenClDevice& device);

// Which of the driver's that is, in this process, which is the driver's from now on.
absl::StatusOr<cl::DeviceId> open_opencl_device(const cl::Api& api, const OpenClDevice& device);

}  // namespace lw
