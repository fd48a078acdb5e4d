// Making the caches cold. On the standard library alone: lw_runner does so too.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lw {

// Writes back and drops [data, data + bytes) from every cache of this processor.
inline void flush_caches(const std::byte* data, int64_t bytes) {
#if defined(__x86_64__)
  for (int64_t i = 0; i < bytes; i += 64) __builtin_ia32_clflush(data + i);
  __builtin_ia32_mfence();
#elif defined(__aarch64__)
  for (int64_t i = 0; i < bytes; i += 64) asm volatile("dc civac, %0" : : "r"(data + i) : "memory");
  asm volatile("dsb sy" : : : "memory");
#endif
}

}  // namespace lw
