#include "src/measure/process/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/measure/process/syscall_filter.h"

namespace lw {
namespace {

ControlPage* crash_page = nullptr;  // for the handler, which gets no argument of ours

bool was_write(void* context) {
#if defined(__x86_64__)
  // Bit 1 of the page-fault error code.
  return (static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & 2) != 0;
#else
  return false;
#endif
}

// Async-signal-safe: stores to mapped memory, then the end. A fault that returns happens again, now
// without a handler; other signals could not be raised again (a process that is the first of its
// namespace ignores its own), so the process says with its status what it died of.
void on_crash(int signal_number, siginfo_t* info, void* context) {
  if (crash_page != nullptr && crash_page->signal == 0) {
    crash_page->wrote = was_write(context);
    crash_page->address = reinterpret_cast<uint64_t>(info->si_addr);
    crash_page->syscall = signal_number == SIGSYS ? info->si_syscall : -1;
    crash_page->signal = signal_number;
  }
  const bool again = info->si_code > 0 && (signal_number == SIGSEGV || signal_number == SIGBUS ||
                                           signal_number == SIGFPE || signal_number == SIGILL);
  if (!again) _exit(128 + signal_number);
}

int statm = -1;  // /proc/self/statm, kept while there is a /proc

int64_t address_space_now() {
  watch_address_space();
  char text[64] = "";
  const ssize_t size = pread(statm, text, sizeof text - 1, 0);
  close(statm);
  statm = -1;
  return size > 0 ? std::atoll(text) * sysconf(_SC_PAGESIZE) : 0;
}

std::string describe_address(const ControlPage& page) {
  const uint64_t address = page.address;
  const char* access = page.wrote ? "write" : "read";
  const int regions = std::clamp(static_cast<int>(page.regions), 0, ControlPage::kRegions);
  for (int i = 0; i < regions; ++i) {
    const ControlPage::Region& r = page.region[i];
    if (address < r.low || address >= r.high) continue;
    const std::string name(r.name, strnlen(r.name, sizeof r.name));
    if (address >= r.end) {
      return absl::StrCat(access, " ", address - r.end, " bytes past the end of ", name);
    }
    if (address < r.begin) {
      return absl::StrCat(access, " ", r.begin - address, " bytes before ", name);
    }
    return absl::StrCat(access, " at byte ", address - r.begin, " of ", name,
                        ", which is read-only");
  }
  return absl::StrFormat("%s at address 0x%x", access, address);
}

}  // namespace

void report_crashes_to(ControlPage* page) {
  crash_page = page;
  // A kernel may overflow its stack: the handler has its own.
  static char* stack = new char[size_t{64} << 10];
  stack_t alternate{};
  alternate.ss_sp = stack;
  alternate.ss_size = size_t{64} << 10;
  sigaltstack(&alternate, nullptr);
  struct sigaction action {};
  action.sa_sigaction = on_crash;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | static_cast<int>(SA_RESETHAND);
  for (int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) {
    sigaction(s, &action, nullptr);
  }
}

void watch_address_space() {
  if (statm < 0) statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
}

void limit_resources(int64_t memory_bytes) {
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  if (memory_bytes > 0 && !kSanitized) {
    const rlim_t limit = static_cast<rlim_t>(address_space_now() + memory_bytes);
    const rlimit space{limit, limit};
    setrlimit(RLIMIT_AS, &space);
  }
}

void die_with_parent(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
}

void close_descriptors_but(std::vector<int> keep) {
  std::sort(keep.begin(), keep.end());
  unsigned from = 3;
  for (int fd : keep) {
    if (fd < static_cast<int>(from)) continue;
    if (fd > static_cast<int>(from))
      syscall(SYS_close_range, from, static_cast<unsigned>(fd - 1), 0);
    from = static_cast<unsigned>(fd + 1);
  }
  syscall(SYS_close_range, from, ~0u, 0);
}

std::string signal_name(int signal) {
  const char* abbreviation = sigabbrev_np(signal);
  return abbreviation != nullptr ? absl::StrCat("SIG", abbreviation)
                                 : absl::StrCat("signal ", signal);
}

std::string describe_death(int wait_status, const ControlPage* page) {
  if (page != nullptr && page->signal == SIGSYS) {
    return absl::StrCat("called ", syscall_name(page->syscall), ": not allowed");
  }
  if (page != nullptr && page->signal != 0) {
    const std::string name = signal_name(page->signal);
    const bool has_address = page->signal == SIGSEGV || page->signal == SIGBUS;
    return has_address ? absl::StrCat(name, ": ", describe_address(*page)) : name;
  }
  // Where signals were blocked (the C library does so while it starts a thread) nobody noted which.
  if (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGSYS) {
    return "SIGSYS: called what is not allowed";
  }
  if (WIFSIGNALED(wait_status)) return signal_name(WTERMSIG(wait_status));
  if (WIFEXITED(wait_status)) return absl::StrCat("exit status ", WEXITSTATUS(wait_status));
  return "unknown end";
}

}  // namespace lw
