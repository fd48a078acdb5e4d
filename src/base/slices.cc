#include "src/base/slices.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace lw {
namespace {

// sched_attr of sched_setattr(2). glibc has neither the calls nor the type, and the kernel's header
// does not go with glibc's.
struct Attributes {
  uint32_t size = 0, policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime_ns = 0, deadline_ns = 0, period_ns = 0;
};

bool get(Attributes* attributes) {
  return syscall(SYS_sched_getattr, 0, attributes, sizeof *attributes, 0) == 0;
}

}  // namespace

bool prefer_slices(std::chrono::microseconds length) {
  Attributes attributes;
  if (!get(&attributes)) return false;
  attributes.size = sizeof attributes;
  attributes.runtime_ns = static_cast<uint64_t>(std::chrono::nanoseconds(length).count());
  // Older kernels take it and do nothing.
  return syscall(SYS_sched_setattr, 0, &attributes, 0) == 0 && slice_length() == length;
}

std::chrono::microseconds slice_length() {
  Attributes attributes;
  if (!get(&attributes)) return std::chrono::microseconds(0);
  return std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::nanoseconds(attributes.runtime_ns));
}

}  // namespace lw
