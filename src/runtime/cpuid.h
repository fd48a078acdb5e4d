// What x86 processors say of themselves.
#pragma once

#if defined(__x86_64__)
#include <cpuid.h>

namespace lw {

struct Cpuid {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  explicit Cpuid(unsigned leaf, unsigned subleaf = 0) {
    if (__get_cpuid_count(leaf, subleaf, &eax, &ebx, &ecx, &edx) == 0) eax = ebx = ecx = edx = 0;
  }
};

inline bool bit(unsigned value, int index) { return (value >> index & 1) != 0; }

}  // namespace lw
#endif
