#include "src/measure/cuda/nvml.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <type_traits>
#include <utility>

namespace lw {
namespace {

constexpr int kNvmlSuccess = 0;
constexpr int kSmClock = 1;                // nvmlClockType_t

std::optional<bool> nvml_mode(int (*ask)(void*, unsigned*, unsigned*), void* device) {
  unsigned current = 0, pending = 0;
  if (ask == nullptr || ask(device, &current, &pending) != kNvmlSuccess) return std::nullopt;
  return current != 0;
}

}  // namespace

// Any may be null but the first three.
struct Nvml::Functions {
  int (*Init)();
  int (*Shutdown)();
  int (*HandleByBusId)(const char*, void**);
  int (*DriverVersion)(char*, unsigned);
  int (*ClockInfo)(void*, int, unsigned*);
  int (*PowerUsage)(void*, unsigned*);
  int (*PowerLimit)(void*, unsigned*);
  int (*ThrottleReasons)(void*, unsigned long long*);
  int (*EccMode)(void*, unsigned*, unsigned*);
  int (*MigMode)(void*, unsigned*, unsigned*);
};

Nvml::Nvml(std::unique_ptr<Functions> functions) : functions_(std::move(functions)) {}

Nvml::~Nvml() { functions_->Shutdown(); }

std::unique_ptr<Nvml> Nvml::open(const std::string& bus_id) {
  const char* given = getenv("LOOPWRIGHT_NVML");
  void* const library = dlopen(given != nullptr && given[0] != 0 ? given : "libnvidia-ml.so.1",
                               RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  std::unique_ptr<Functions> f = std::make_unique<Functions>();
  const auto find = [library](const char* name, auto* pointer) {
    *pointer =
        reinterpret_cast<std::remove_reference_t<decltype(*pointer)>>(dlsym(library, name));
  };
  find("nvmlInit_v2", &f->Init);
  find("nvmlShutdown", &f->Shutdown);
  find("nvmlDeviceGetHandleByPciBusId_v2", &f->HandleByBusId);
  find("nvmlSystemGetDriverVersion", &f->DriverVersion);
  find("nvmlDeviceGetClockInfo", &f->ClockInfo);
  find("nvmlDeviceGetPowerUsage", &f->PowerUsage);
  find("nvmlDeviceGetEnforcedPowerLimit", &f->PowerLimit);
  find("nvmlDeviceGetCurrentClocksThrottleReasons", &f->ThrottleReasons);
  find("nvmlDeviceGetEccMode", &f->EccMode);
  find("nvmlDeviceGetMigMode", &f->MigMode);
  if (f->Init == nullptr || f->Shutdown == nullptr || f->HandleByBusId == nullptr ||
      f->Init() != kNvmlSuccess) {
    return nullptr;
  }
  std::unique_ptr<Nvml> nvml(new Nvml(std::move(f)));
  if (nvml->functions_->HandleByBusId(bus_id.c_str(), &nvml->device_) != kNvmlSuccess) {
    return nullptr;
  }
  return nvml;
}

std::string Nvml::driver_release() const {
  char text[96] = "";
  if (functions_->DriverVersion == nullptr ||
      functions_->DriverVersion(text, sizeof text - 1) != kNvmlSuccess) {
    return "";
  }
  return text;
}

std::optional<bool> Nvml::divided() const { return nvml_mode(functions_->MigMode, device_); }
std::optional<bool> Nvml::corrected() const { return nvml_mode(functions_->EccMode, device_); }

double Nvml::power_limit_w() const {
  unsigned milliwatts = 0;
  const auto ask = functions_->PowerLimit;
  return ask != nullptr && ask(device_, &milliwatts) == kNvmlSuccess ? milliwatts * 1e-3 : 0;
}

// Bits and meanings: NVIDIA's documentation of nvmlClocksEventReasons.
std::string Nvml::held_by(uint64_t throttle_reasons) {
  constexpr struct {
    uint64_t bits;
    const char* words;
  } kReasons[] = {{0x2 | 0x100, "clocks that were set"},  {0x4, "its power limit"},
                  {0x10, "the slowest of its group"},     {0x20 | 0x40, "its heat"},
                  {0x80, "the machine's power supply"},   {0x8, "a slowdown of the hardware's"}};
  std::string words;
  for (const auto& reason : kReasons) {
    if ((throttle_reasons & reason.bits) == 0) continue;
    words += words.empty() ? "" : ", ";
    words += reason.words;
  }
  return words;
}

Nvml::State Nvml::state() const {
  State state;
  unsigned value = 0;
  const Functions& f = *functions_;
  if (f.ClockInfo != nullptr && f.ClockInfo(device_, kSmClock, &value) == kNvmlSuccess) {
    state.sm_mhz = value;
  }
  if (f.PowerUsage != nullptr && f.PowerUsage(device_, &value) == kNvmlSuccess) {
    state.power_w = value * 1e-3;
  }
  unsigned long long reasons = 0;
  if (f.ThrottleReasons != nullptr && f.ThrottleReasons(device_, &reasons) == kNvmlSuccess) {
    state.throttle_reasons = reasons;
  }
  return state;
}

}  // namespace lw
