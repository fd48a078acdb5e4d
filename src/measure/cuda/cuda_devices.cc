#include "src/measure/cuda/cuda_devices.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "nlohmann/json.hpp"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/measure/cuda/nvml.h"
#include "src/measure/process/ipc.h"
#include "src/measure/simt/common/driver_process.h"
#include "src/measure/simt/common/found_devices.h"

namespace lw {
namespace {

constexpr int kMostGpus = 64;
constexpr DriverWords kCudaWords = {"CUDA", "cuda:", "NVIDIA's driver",
                                    "does `nvidia-smi` answer? CUDA_VISIBLE_DEVICES=N leaves "
                                    "devices out"};

// CUDA's versions that know the instructions of our kernels (PTX 7.5 of sm_80, 8.0 of sm_90a), and
// the first releases of the driver with them.
struct Requirement {
  int version;
  const char* release;
};
Requirement required_of(uint64_t major, uint64_t minor) {
  if (major == 9 && minor == 0) return {12000, "525.60"};
  return {11050, "495.29"};
}

struct Processor {
  uint64_t major = 0, minor = 0;
  bool alone = false;                      // of this one version: "sm_90a"
};
std::optional<Processor> parse_processor(std::string_view text) {
  if (text.substr(0, 3) != "sm_") return std::nullopt;
  text.remove_prefix(3);
  Processor p;
  if (!text.empty() && absl::ascii_isalpha(static_cast<unsigned char>(text.back()))) {
    p.alone = true;
    text.remove_suffix(1);
  }
  if (text.size() < 2 || text.size() > 3) return std::nullopt;
  uint64_t number = 0;
  for (char c : text) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) return std::nullopt;
    number = 10 * number + static_cast<uint64_t>(c - '0');
  }
  p.major = number / 10;
  p.minor = number % 10;
  return p;
}

std::string uuid_text(const cu::Uuid& uuid, bool slice) {
  std::string text = slice ? "MIG-" : "GPU-";
  for (int i = 0; i < 16; ++i) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", uuid.bytes[i]);
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += digits;
  }
  return text;
}

std::string cuda_nonsense(const CudaDevice& d, bool prohibited) {
  const auto beyond = [](uint64_t value, uint64_t least, uint64_t most) {
    return value < least || value > most;
  };
  if (d.name.empty()) return "it has no name";
  if (d.major < 8) {
    return concat("its compute capability is ", d.capability(),
                  ", kernels are made for 8.0 and later (by OpenCL it can be used as it is)");
  }
  const Requirement required = required_of(d.major, d.minor);
  if (d.version < static_cast<uint64_t>(required.version)) {
    return concat("its driver has CUDA ", cu::version_text(static_cast<int>(d.version)),
                  ", kernels for compute capability ", d.capability(), " need ",
                  cu::version_text(required.version), ": install release ", required.release,
                  " of NVIDIA's driver or a later one");
  }
  if (prohibited) return "its compute mode is prohibited (`nvidia-smi -c 0` allows computing)";
  if (beyond(d.units, 1, 100'000)) return concat("it says it has ", d.units, " multiprocessors");
  if (beyond(d.group_items, 1, 65536)) return concat("blocks of up to ", d.group_items, " threads");
  if (beyond(d.memory_bytes, 1 << 20, uint64_t{1} << 60)) {
    return concat("memory of ", d.memory_bytes, " bytes");
  }
  if (beyond(d.shared_bytes, 0, 1'000'000'000)) {
    return concat("shared memory of ", d.shared_bytes, " bytes");
  }
  return "";
}

CudaDevice describe_cuda(const cu::Api& api, cu::DeviceId id, int version) {
  const auto number = [&](int attribute) -> uint64_t {
    int value = 0;
    if (api.DeviceGetAttribute(&value, attribute, id) != cu::kSuccess || value < 0) return 0;
    return static_cast<uint64_t>(value);
  };
  CudaDevice d;
  char text[256] = "";
  if (api.DeviceGetName(text, sizeof text - 1, id) == cu::kSuccess) {
    d.name = printable(std::string_view(text, sizeof text));
  }
  // Drivers name slices by what they are cut from: "NVIDIA H100 80GB HBM3 MIG 1g.10gb".
  d.slice = absl::StrContains(d.name, " MIG ");
  cu::Uuid uuid{};
  if (api.DeviceGetUuid(&uuid, id) == cu::kSuccess) d.uuid = uuid_text(uuid, d.slice);
  char bus[64] = "";
  if (api.DeviceGetPCIBusId(bus, sizeof bus - 1, id) == cu::kSuccess) {
    d.bus_id = printable(std::string_view(bus, sizeof bus));
  }
  size_t memory = 0;
  if (api.DeviceTotalMem(&memory, id) == cu::kSuccess) d.memory_bytes = memory;
  d.version = static_cast<uint64_t>(std::max(version, 0));
  d.major = number(cu::kCapabilityMajor);
  d.minor = number(cu::kCapabilityMinor);
  d.units = number(cu::kMultiprocessors);
  d.mhz = number(cu::kClockKhz) / 1000;
  d.l2_bytes = number(cu::kL2Bytes);
  d.bus_bits = number(cu::kMemoryBusBits);
  d.memory_mhz = number(cu::kMemoryClockKhz) / 1000;
  d.shared_bytes = number(cu::kSharedPerBlockOptIn);
  d.unit_shared_bytes = number(cu::kSharedPerMultiprocessor);
  d.group_items = number(cu::kMaxThreadsPerBlock);
  d.unit_items = number(cu::kMaxThreadsPerMultiprocessor);
  d.unit_registers = number(cu::kRegistersPerMultiprocessor);
  d.grid_groups = number(cu::kMaxGridX);
  d.ecc = number(cu::kEccEnabled) != 0;
  if (const std::unique_ptr<Nvml> nvml = Nvml::open(d.bus_id)) {
    d.release = printable(nvml->driver_release());
    d.power_limit_w = static_cast<uint64_t>(nvml->power_limit_w());
    d.slice = d.slice || nvml->divided().value_or(false);
    d.ecc = nvml->corrected().value_or(d.ecc);
  }
  d.nonsense = cuda_nonsense(d, number(cu::kComputeMode) == cu::kComputeModeProhibited);
  return d;
}

// All devices, in the driver's order, to `visit`.
absl::Status visit_cuda_devices(const cu::Api& api,
                                const std::function<void(cu::DeviceId)>& visit) {
  const absl::Status none = absl::NotFoundError(
      "NVIDIA's driver knows no device of this machine (CUDA_VISIBLE_DEVICES says which it may "
      "show)");
  const cu::Result began = api.Init(0);
  if (began == cu::kNoDevice) return none;
  if (began != cu::kSuccess) {
    return absl::UnavailableError(concat("NVIDIA's driver does not begin: cuInit: ",
                                         cu::error_name(began),
                                         "; does `nvidia-smi` answer? After the driver was updated "
                                         "the machine has to be started anew"));
  }
  int count = 0;
  const cu::Result counted = api.DeviceGetCount(&count);
  if (counted != cu::kSuccess) return cu::error_status(counted, "cuDeviceGetCount");
  if (count <= 0) return none;
  for (int i = 0; i < std::min(count, kMostGpus); ++i) {
    cu::DeviceId id = 0;
    if (api.DeviceGet(&id, i) == cu::kSuccess) visit(id);
  }
  return absl::OkStatus();
}

// As they travel from the process that asks.
template <class Device, class VisitText, class VisitNumber, class VisitFlag>
void each_field(Device& d, const VisitText& text, const VisitNumber& number,
                const VisitFlag& flag) {
  for (auto* one : {&d.name, &d.uuid, &d.bus_id, &d.release, &d.nonsense}) text(*one);
  for (auto* one : {&d.version, &d.major, &d.minor, &d.units, &d.mhz, &d.l2_bytes, &d.memory_bytes,
                    &d.bus_bits, &d.memory_mhz, &d.shared_bytes, &d.unit_shared_bytes,
                    &d.group_items, &d.unit_items, &d.unit_registers, &d.grid_groups,
                    &d.power_limit_w}) {
    number(*one);
  }
  for (auto* one : {&d.ecc, &d.slice}) flag(*one);
}

std::string bytes_of_cuda(const CudaDevice& d) {
  Writer w;
  each_field(
      d, [&](const std::string& text) { w.put_string(text); },
      [&](uint64_t number) { w.put(number); }, [&](bool flag) { w.put(flag); });
  return w.bytes();
}

CudaDevice cuda_of_bytes(std::string_view bytes) {
  Reader r(bytes);
  CudaDevice d;
  each_field(
      d, [&](std::string& text) { text = r.get_string(); },
      [&](uint64_t& number) { number = r.get<uint64_t>(); },
      [&](bool& flag) { flag = r.get<bool>(); });
  return d;
}

std::string surroundings() {
  std::string all;
  for (const char* name : {"LOOPWRIGHT_CUDA", "CUDA_VISIBLE_DEVICES"}) {
    const char* value = std::getenv(name);
    all += concat(value != nullptr ? value : "", ";");
  }
  return all;
}

}  // namespace

std::string CudaDevice::capability() const { return concat(major, ".", minor); }

bool CudaDevice::runs_binary(std::string_view processor) const {
  const std::optional<Processor> p = parse_processor(processor);
  return p && p->major == major && (p->alone ? p->minor == minor : p->minor <= minor);
}

bool CudaDevice::runs_ptx(std::string_view processor) const {
  const std::optional<Processor> p = parse_processor(processor);
  if (!p || p->alone) return p && p->major == major && p->minor == minor;
  return p->major < major || (p->major == major && p->minor <= minor);
}

std::string CudaDevice::driver_text() const {
  const std::string text = concat("CUDA ", cu::version_text(static_cast<int>(version)));
  return release.empty() ? text : concat(text, ", ", release);
}

absl::StatusOr<std::vector<CudaDevice>> list_cuda_devices(double limit_s) {
  return ask_once<CudaDevice>(surroundings(), [limit_s] {
    return ask_devices<CudaDevice>(
        limit_s,
        [](const Say& say) -> absl::Status {
          ASSIGN_OR_RETURN(const cu::Api* api, cu::load_api());
          int version = 0;
          (void)api->DriverGetVersion(&version);
          return visit_cuda_devices(*api, [&](cu::DeviceId id) {
            say(bytes_of_cuda(describe_cuda(*api, id, version)));
          });
        },
        cuda_of_bytes, kCudaWords);
  });
}

absl::StatusOr<CudaDevice> find_cuda_device(std::string_view which) {
  ASSIGN_OR_RETURN(const std::vector<CudaDevice> devices, list_cuda_devices());
  for (const CudaDevice& d : devices) {
    const bool is_uuid = which.starts_with("GPU-") || which.starts_with("MIG-");
    if (is_uuid && d.uuid.starts_with(which)) return usable(d, kCudaWords);
  }
  return choose_device(devices, which, kCudaWords);
}

absl::StatusOr<CudaDevice> named_cuda_device(std::string_view name) {
  ASSIGN_OR_RETURN(const std::vector<CudaDevice> devices, list_cuda_devices());
  return device_named(devices, name, kCudaWords);
}

std::string cuda_facts(const CudaDevice& device) {
  const nlohmann::json facts = {{"cuda", true},
                                {"device", device.name},
                                {"number", device.index},
                                {"uuid", device.uuid},
                                {"capability", device.capability()},
                                {"driver", device.driver_text()},
                                {"ecc", device.ecc},
                                {"mig", device.slice},
                                {"power_limit_w", device.power_limit_w}};
  return facts.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<cu::DeviceId> open_cuda_device(const cu::Api& api, const CudaDevice& device) {
  std::optional<cu::DeviceId> found;
  int index = 0;
  // Where one is gone others have its number; a driver that tells no UUIDs has to be believed.
  RETURN_IF_ERROR(visit_cuda_devices(api, [&](cu::DeviceId id) {
    cu::Uuid uuid{};
    const bool told = api.DeviceGetUuid(&uuid, id) == cu::kSuccess;
    // (That it is a slice may be known of NVML alone.)
    const bool same = told ? device.uuid == uuid_text(uuid, true) ||
                                 device.uuid == uuid_text(uuid, false)
                           : index == device.index;
    if (same && !found) found = id;
    ++index;
  }));
  if (found) return *found;
  return absl::UnavailableError(concat("CUDA device '", device.name, "' (", device.uuid,
                                       ") is not there any more: `nvidia-smi` and the system's log "
                                       "(Xid) say whether it has fallen off the bus"));
}

}  // namespace lw
