#include "src/measure/simt/common/device_target.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "schedules/targets/simt/simt_target.h"
#include "src/base/message.h"

namespace lw {

std::string driven_target_name(std::string_view prefix, const std::string& device) {
  std::string slug(prefix);
  for (char c : device) {
    const unsigned char u = static_cast<unsigned char>(c);
    const bool word = absl::ascii_isalnum(u);
    if (word) slug += absl::ascii_tolower(u);
    else if (slug.back() != '-' && slug.back() != ':') slug += '-';
  }
  while (slug.back() == '-') slug.pop_back();
  return slug;
}

std::string device_name_of(const Target& target) { return simt(target).device; }
int units_of(const Target& target) { return simt(target).units; }

void set_clock_and_l2(Target* target, uint64_t mhz, uint64_t l2_bytes) {
  constexpr uint64_t kSlowestMhz = 100, kFastestMhz = 10'000;
  if (mhz >= kSlowestMhz && mhz <= kFastestMhz) target->ghz = static_cast<double>(mhz) / 1e3;
  for (CacheLevel& level : target->caches) {
    if (level.name == "L2" && l2_bytes > 0) level.bytes = static_cast<int64_t>(l2_bytes);
  }
}

void set_device_figures(Target* target, const DeviceFigures& figures) {
  SimtTarget part = simt(*target);
  part.device = figures.device;
  part.units = static_cast<int>(figures.units);
  part.group_items = figures.group_items;
  part.unit_items = figures.unit_items;
  part.local_bytes = figures.local_bytes;
  part.unit_local_bytes = figures.unit_local_bytes;
  part.unit_register_bytes = figures.unit_register_bytes;
  part.buffer_bytes = std::min(part.buffer_bytes, figures.memory_bytes);
  set_simt(target, std::move(part));
}

absl::Status check_same_device(const Target& device, const Target& task) {
  if (task.architecture != device.architecture) {
    return absl::FailedPreconditionError(concat("this device runs kernels for ",
                                                device.architecture, ", not for ",
                                                task.architecture));
  }
  if (simt(task).device == simt(device).device) return absl::OkStatus();
  return absl::FailedPreconditionError(concat("this device is '", simt(device).device, "', not '",
                                              simt(task).device, "'"));
}

}  // namespace lw
