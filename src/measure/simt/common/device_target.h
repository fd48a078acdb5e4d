// What the target of a driver's device says of it, whichever driver that is. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "schedules/targets/target.h"

namespace lw {

// Of a buffer: offsets in kernels are of 32 bits.
inline constexpr uint64_t kMostBufferBytes = uint64_t{1} << 31;

// "opencl:", "pthread-skylake-avx512-AMD EPYC" -> "opencl:pthread-skylake-avx512-amd-epyc".
std::string driven_target_name(std::string_view prefix, const std::string& device);

// REQUIRES (all that follow): targets of the family.
//
// As its driver calls it; "": any that there is.
std::string device_name_of(const Target& target);
// Compute units.
int units_of(const Target& target);

// What drivers say of the limits of launches.
struct DeviceFigures {
  std::string device;
  int64_t units = 1;
  int64_t group_items = 1, unit_items = 1;
  int64_t local_bytes = 0;                 // of a group
  int64_t unit_local_bytes = 0, unit_register_bytes = 0;  // of all groups that a unit holds
  int64_t memory_bytes = 0;
};
// What a driver says of them, where that is credible.
void set_clock_and_l2(Target* target, uint64_t mhz, uint64_t l2_bytes);
// (Buffers are no larger than they were, which is what kernels can reach.)
void set_device_figures(Target* target, const DeviceFigures& figures);

// kFailedPrecondition: a task's kernels are not for this device, or not for it in particular.
absl::Status check_same_device(const Target& device, const Target& task);

}  // namespace lw
