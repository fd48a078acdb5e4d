// A seccomp filter: what a process that runs foreign code may still ask of the system.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace lw {

struct FilterOptions {
  int socket = -1;            // reads and writes go nowhere else
  bool keep_stderr = false;   // messages of code generators and sanitizers may pass
};

// For all threads of this process and for good. Allowed: the socket, memory without files, futexes,
// clocks, the end of the process. Anything else raises SIGSYS (clone3: ENOSYS, so that the C
// library tries clone, which has a name). No descriptor, process or thread can be made any more.
// kUnavailable: this system has no filters. REQUIRES: PR_SET_NO_NEW_PRIVS.
absl::Status install_syscall_filter(const FilterOptions& options);

// "openat"; "syscall 9999" for numbers that nobody knows.
std::string syscall_name(int number);

}  // namespace lw
