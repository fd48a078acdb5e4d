// What NVIDIA's management library says of a device, where it is there: what the driver's own API
// does not tell. Nothing of it is needed to measure.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace lw {

// Thread-compatible.
class Nvml {
 public:
  // Of libnvidia-ml.so.1, or of the library that the environment's LOOPWRIGHT_NVML names. Null: it
  // is not there, or does not know the device of this PCI bus id ("0000:65:00.0"). Loading it runs
  // its code.
  static std::unique_ptr<Nvml> open(const std::string& bus_id);
  ~Nvml();
  Nvml(const Nvml&) = delete;

  // The release of the driver, "550.54.15"; "": it does not say.
  std::string driver_release() const;
  // Whether the device is divided into slices, and whether its memory is corrected; nullopt: it
  // does not say.
  std::optional<bool> divided() const;
  std::optional<bool> corrected() const;
  // The most that it may draw; 0: it does not say.
  double power_limit_w() const;

  // What it does now; what it does not say is 0.
  struct State {
    double sm_mhz = 0, power_w = 0;
    uint64_t throttle_reasons = 0;         // bits, nvmlClocksEventReasons; 1: it is idle
  };
  State state() const;
  // What keeps its clocks low, in words: "its power limit, its heat"; "": nothing.
  static std::string held_by(uint64_t throttle_reasons);

 private:
  struct Functions;
  explicit Nvml(std::unique_ptr<Functions> functions);

  const std::unique_ptr<Functions> functions_;
  void* device_ = nullptr;
};

}  // namespace lw
