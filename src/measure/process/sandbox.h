// What keeps a wild kernel's damage to one process, and what that process can still tell of its
// end.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lw {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;        // GCC's way to say so; Clang's is a feature
#elif defined(__has_feature)
constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

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
  volatile int32_t signal = 0;  // 0: no handler has run
  volatile int32_t wrote = 0;   // the faulting access was a write
  volatile uint64_t address = 0;
  volatile int32_t syscall = -1;  // with SIGSYS: what it called
};

// SIGSEGV, SIGBUS, SIGFPE and SIGILL write down what happened and die of the same signal; SIGTRAP,
// SIGABRT and SIGSYS (a forbidden system call) write it down and exit with 128 + signal.
void report_crashes_to(ControlPage* page);

// Opens what limit_resources reads, for a process that is about to lose /proc.
void watch_address_space();

// No core dumps; at most `memory_bytes` of address space beyond what is mapped now (not under a
// sanitizer, whose shadow memory has no bounds); 0: no such limit.
void limit_resources(int64_t memory_bytes);

// SIGKILL for this process when the thread that forked it ends; exits at once if it has already.
void die_with_parent(pid_t parent);

// Closes every descriptor above stderr but these.
void close_descriptors_but(std::vector<int> keep);

// "called openat: not allowed", "SIGSEGV: write 4 bytes past the end of output D", from a wait
// status and, if not null, the page.
std::string describe_death(int wait_status, const ControlPage* page);
std::string signal_name(int signal);

}  // namespace lw
