// What keeps a wild kernel's damage to one process, and what that process can still tell of its
// end.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lw {

// Shared with the parent: where the worker's memory is, and, after a crash, what happened. Written
// by the worker (its signal handler included), read by the parent once it is dead; a wild kernel
// may have overwritten it, so the parent takes nothing in it for more than a description.
struct ControlPage {
  struct Region {
    char name[48];        // "input A", "output D", "workspace"
    uint64_t low, high;   // with the guard pages
    uint64_t begin, end;  // the data
  };
  static constexpr int kRegions = 32;
  int32_t regions = 0;
  Region region[kRegions];
  int32_t slot = -1;            // the loaded kernel that is running
  volatile int32_t signal = 0;  // 0: no handler has run
  volatile int32_t wrote = 0;   // the faulting access was a write
  volatile uint64_t address = 0;
};

// SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP write down what happened and die of the same signal.
void report_crashes_to(ControlPage* page);

// No core dumps; at most `memory_bytes` of address space beyond what is mapped now (not under a
// sanitizer, whose shadow memory has no bounds); 0: no such limit.
void limit_resources(int64_t memory_bytes);

// SIGKILL for this process when the thread that forked it ends; exits at once if it has already.
void die_with_parent(pid_t parent);

// Closes every descriptor above stderr but these.
void close_descriptors_but(std::vector<int> keep);

// "SIGSEGV: write 4 bytes past the end of output D", from a wait status and, if not null, the page.
std::string describe_death(int wait_status, const ControlPage* page);
std::string signal_name(int signal);

}  // namespace lw
