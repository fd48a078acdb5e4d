#include "src/measure/simt/opencl_devices.h"

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "absl/strings/match.h"
#include "nlohmann/json.hpp"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/measure/process/ipc.h"
#include "src/measure/simt/common/driver_process.h"
#include "src/measure/simt/common/found_devices.h"

namespace lw {

bool OpenClDevice::has_extension(std::string_view word) const {
  return concat(" ", extensions, " ").find(concat(" ", word, " ")) != std::string::npos;
}

namespace {

constexpr cl::Uint kMostDevices = 64;      // of a platform, and of platforms
constexpr size_t kMostSizes = 16;          // of sub-groups

// What a driver says, whose strings may have no end and whose sizes may be anything.
class Questions {
 public:
  Questions(const cl::Api& api, cl::DeviceId device) : api_(api), device_(device) {}

  std::string text(cl::Uint what) const {
    char bytes[8192] = "";
    size_t size = 0;
    if (api_.GetDeviceInfo(device_, what, sizeof bytes - 1, bytes, &size) != cl::kSuccess) return "";
    return printable(std::string_view(bytes, sizeof bytes));
  }
  template <class T>
  uint64_t number(cl::Uint what) const {
    T value = 0;
    if (api_.GetDeviceInfo(device_, what, sizeof value, &value, nullptr) != cl::kSuccess) return 0;
    return value;
  }
  // Ascending, of a list of sizes that mean something.
  std::vector<uint64_t> sizes(cl::Uint what) const {
    size_t values[kMostSizes] = {}, bytes = 0;
    if (api_.GetDeviceInfo(device_, what, sizeof values, values, &bytes) != cl::kSuccess) return {};
    std::vector<uint64_t> sizes(values, values + std::min(kMostSizes, bytes / sizeof *values));
    std::erase_if(sizes, [](uint64_t size) { return size < 2 || size > 1024; });
    std::sort(sizes.begin(), sizes.end());
    return sizes;
  }

 private:
  const cl::Api& api_;
  const cl::DeviceId device_;
};

std::string find_nonsense(const OpenClDevice& d) {
  const auto beyond = [](uint64_t value, uint64_t least, uint64_t most) {
    return value < least || value > most;
  };
  if (d.name.empty()) return "it has no name";
  if (beyond(d.units, 1, 1'000'000)) return concat("it says it has ", d.units, " compute units");
  if (beyond(d.group_items, 1, 65536)) return concat("groups of up to ", d.group_items, " items");
  if (beyond(d.buffer_bytes, 1 << 20, uint64_t{1} << 50)) {
    return concat("buffers of up to ", d.buffer_bytes, " bytes");
  }
  if (beyond(d.memory_bytes, 1 << 20, uint64_t{1} << 60)) {
    return concat("memory of ", d.memory_bytes, " bytes");
  }
  if (beyond(d.local_bytes, 0, 1'000'000'000)) {
    return concat("local memory of ", d.local_bytes, " bytes");
  }
  return "";
}

OpenClDevice describe_opencl(const cl::Api& api, cl::DeviceId id, const std::string& platform) {
  const Questions ask(api, id);
  OpenClDevice d;
  d.platform = platform;
  d.name = ask.text(cl::kDeviceName);
  d.vendor = ask.text(cl::kDeviceVendor);
  d.version = ask.text(cl::kDeviceVersion);
  d.driver = ask.text(cl::kDriverVersion);
  d.extensions = ask.text(cl::kDeviceExtensions);
  d.type = ask.number<cl::Bits>(cl::kDeviceType);
  d.units = ask.number<cl::Uint>(cl::kMaxComputeUnits);
  d.group_items = ask.number<size_t>(cl::kMaxWorkGroupSize);
  d.mhz = ask.number<cl::Uint>(cl::kMaxClockFrequency);
  d.address_bits = ask.number<cl::Uint>(cl::kAddressBits);
  d.buffer_bytes = ask.number<cl::Bits>(cl::kMaxMemAllocSize);
  d.memory_bytes = ask.number<cl::Bits>(cl::kGlobalMemSize);
  d.line_bytes = ask.number<cl::Uint>(cl::kGlobalMemCachelineSize);
  d.cache_bytes = ask.number<cl::Bits>(cl::kGlobalMemCacheSize);
  d.local_bytes = ask.number<cl::Bits>(cl::kLocalMemSize);
  d.local_real = ask.number<cl::Uint>(cl::kLocalMemType) == cl::kLocalMemory;
  d.float_lanes = ask.number<cl::Uint>(cl::kNativeVectorWidthFloat);
  d.fp64 = d.has_extension("cl_khr_fp64");
  d.half = d.has_extension("cl_khr_fp16");
  // What it takes to have a size by asking for it, and to exchange registers in OpenCL C 1.2.
  if (d.has_extension("cl_intel_required_subgroup_size") &&
      d.has_extension("cl_intel_subgroups")) {
    d.sub_groups = ask.sizes(cl::kSubGroupSizesIntel);
  }
  if (d.has_extension("cl_nv_device_attribute_query")) {
    d.capability_nv = 10 * ask.number<cl::Uint>(cl::kComputeCapabilityMajorNv) +
                      ask.number<cl::Uint>(cl::kComputeCapabilityMinorNv);
    d.warp_nv = ask.number<cl::Uint>(cl::kWarpSizeNv);
  }
  d.nonsense = find_nonsense(d);
  if (d.nonsense.empty() && ask.number<cl::Uint>(cl::kCompilerAvailable) == 0) {
    d.nonsense = "its driver has no compiler";
  }
  if (d.nonsense.empty() && ask.number<cl::Uint>(cl::kDeviceAvailable) == 0) {
    d.nonsense = "its driver says that it is not available";
  }
  return d;
}

// All devices, in the loader's order, to `visit`.
absl::Status visit_devices(
    const cl::Api& api, const std::function<void(cl::DeviceId, const std::string&)>& visit) {
  cl::Platform platforms[kMostDevices];
  cl::Uint count = 0;
  const cl::Int error = api.GetPlatformIDs(kMostDevices, platforms, &count);
  if (error != cl::kSuccess && error != cl::kPlatformNotFoundKhr) {
    return absl::NotFoundError(concat("OpenCL lists no platforms: ", cl::error_name(error)));
  }
  count = error == cl::kSuccess ? std::min(count, kMostDevices) : 0;
  if (count == 0) {
    return absl::NotFoundError(
        "OpenCL's loader knows no platform: install a driver (/etc/OpenCL/vendors/*.icd names those "
        "there are; on Debian pocl-opencl-icd, for processors)");
  }
  bool found = false;
  for (cl::Uint p = 0; p < count; ++p) {
    char name[256] = "";
    api.GetPlatformInfo(platforms[p], cl::kPlatformName, sizeof name - 1, name, nullptr);
    cl::DeviceId devices[kMostDevices];
    cl::Uint own = 0;
    if (api.GetDeviceIDs(platforms[p], cl::kDeviceTypeAll, kMostDevices, devices, &own) !=
        cl::kSuccess) {
      continue;                            // an empty platform
    }
    for (cl::Uint d = 0; d < std::min(own, kMostDevices); ++d) visit(devices[d], name);
    found = found || own > 0;
  }
  if (found) return absl::OkStatus();
  return absl::NotFoundError("OpenCL's drivers know no device of this machine");
}

std::string to_bytes(const OpenClDevice& d) {
  Writer w;
  for (const std::string* text : {&d.name, &d.platform, &d.vendor, &d.version, &d.driver,
                                  &d.extensions, &d.nonsense}) {
    w.put_string(*text);
  }
  for (uint64_t number : {d.type, d.units, d.group_items, d.mhz, d.address_bits, d.buffer_bytes,
                          d.memory_bytes, d.line_bytes, d.cache_bytes, d.local_bytes,
                          d.float_lanes, d.capability_nv, d.warp_nv}) {
    w.put(number);
  }
  w.put(d.local_real).put(d.fp64).put(d.half).put(uint64_t{d.sub_groups.size()});
  for (uint64_t size : d.sub_groups) w.put(size);
  return w.bytes();
}

OpenClDevice from_bytes(std::string_view bytes) {
  Reader r(bytes);
  OpenClDevice d;
  for (std::string* text : {&d.name, &d.platform, &d.vendor, &d.version, &d.driver, &d.extensions,
                            &d.nonsense}) {
    *text = r.get_string();
  }
  for (uint64_t* number : {&d.type, &d.units, &d.group_items, &d.mhz, &d.address_bits,
                           &d.buffer_bytes, &d.memory_bytes, &d.line_bytes, &d.cache_bytes,
                           &d.local_bytes, &d.float_lanes, &d.capability_nv, &d.warp_nv}) {
    *number = r.get<uint64_t>();
  }
  d.local_real = r.get<bool>();
  d.fp64 = r.get<bool>();
  d.half = r.get<bool>();
  d.sub_groups.resize(std::min<uint64_t>(kMostSizes, r.get<uint64_t>()));
  for (uint64_t& size : d.sub_groups) size = r.get<uint64_t>();
  return d;
}

constexpr DriverWords kWords = {"OpenCL", "opencl:", "an OpenCL driver",
                                "OCL_ICD_VENDORS=FOLDER leaves some drivers out"};

}  // namespace

absl::StatusOr<std::vector<OpenClDevice>> list_opencl_devices(double limit_s) {
  const char* library = std::getenv("LOOPWRIGHT_OPENCL");
  return ask_once<OpenClDevice>(library != nullptr ? library : "", [limit_s] {
    return ask_devices<OpenClDevice>(
        limit_s,
        [](const Say& say) -> absl::Status {
          ASSIGN_OR_RETURN(const cl::Api* api, cl::load_api());
          return visit_devices(*api, [&](cl::DeviceId id, const std::string& platform) {
            say(to_bytes(describe_opencl(*api, id, platform)));
          });
        },
        from_bytes, kWords);
  });
}

absl::StatusOr<OpenClDevice> find_opencl_device(std::string_view which) {
  ASSIGN_OR_RETURN(const std::vector<OpenClDevice> devices, list_opencl_devices());
  return choose_device(devices, which, kWords);
}

absl::StatusOr<OpenClDevice> named_opencl_device(std::string_view name) {
  ASSIGN_OR_RETURN(const std::vector<OpenClDevice> devices, list_opencl_devices());
  return device_named(devices, name, kWords);
}

std::string opencl_facts(const OpenClDevice& device) {
  const nlohmann::json facts = {{"opencl", true}, {"device", device.name},
                                {"number", device.index},
                                {"driver", device.driver}, {"platform", device.platform}};
  return facts.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<cl::DeviceId> open_opencl_device(const cl::Api& api, const OpenClDevice& device) {
  cl::DeviceId found = nullptr;
  int index = 0;
  // Where one is gone others may have its number.
  RETURN_IF_ERROR(visit_devices(api, [&](cl::DeviceId id, const std::string&) {
    const std::string name = Questions(api, id).text(cl::kDeviceName);
    const bool same = name == device.name || absl::StartsWith(device.name, concat(name, " #"));
    if (index++ == device.index && same) found = id;
  }));
  if (found != nullptr) return found;
  return absl::UnavailableError(concat("OpenCL device '", device.name, "' is not there any more"));
}

}  // namespace lw
