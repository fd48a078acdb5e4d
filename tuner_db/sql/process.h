// Processes by a name that is never reused: a pid alone is, so it goes with the boot and the moment
// the process started. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

namespace lw {

struct ProcessName {
  std::string boot;                        // /proc/sys/kernel/random/boot_id
  int64_t pid = 0;
  int64_t started = 0;                     // ticks since boot
  bool operator==(const ProcessName&) const = default;
};

ProcessName this_process();

// False also for a zombie (it will never act again), and for a process of another pid namespace,
// which cannot be seen: what depends on this must stay harmless when it is wrong.
bool is_alive(const ProcessName& process);

}  // namespace lw
