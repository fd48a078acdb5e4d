#include "src/measure/process/syscall_filter.h"

#include <errno.h>
#include <seccomp.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "absl/strings/str_cat.h"

namespace lw {
namespace {

// Without arguments to look at. Creating threads is not among them: pools are made before.
constexpr int kAllowed[] = {
    SCMP_SYS(poll), SCMP_SYS(ppoll),  // only waits, and there is one descriptor
    SCMP_SYS(futex), SCMP_SYS(sched_yield), SCMP_SYS(nanosleep), SCMP_SYS(clock_nanosleep),
    SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres), SCMP_SYS(gettimeofday), SCMP_SYS(time),
    SCMP_SYS(munmap), SCMP_SYS(mprotect), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(brk),
    SCMP_SYS(exit), SCMP_SYS(exit_group), SCMP_SYS(restart_syscall),
    SCMP_SYS(rt_sigreturn), SCMP_SYS(rt_sigprocmask), SCMP_SYS(sigaltstack),
    SCMP_SYS(getpid), SCMP_SYS(gettid), SCMP_SYS(getrusage), SCMP_SYS(getrandom),
    SCMP_SYS(sched_getaffinity), SCMP_SYS(getcpu), SCMP_SYS(membarrier), SCMP_SYS(rseq),
    SCMP_SYS(set_robust_list),
    SCMP_SYS(sysinfo), SCMP_SYS(uname),  // the C library's sort asks how much memory there is
    SCMP_SYS(getuid), SCMP_SYS(geteuid), SCMP_SYS(getgid), SCMP_SYS(getegid),
};
// Only on the socket.
constexpr int kOnSocket[] = {SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(recvfrom),
                             SCMP_SYS(recvmsg), SCMP_SYS(sendto), SCMP_SYS(sendmsg)};

int add_rules(scmp_filter_ctx filter, const FilterOptions& options) {
  int failed = 0;
  const auto add = [&](int error) { failed = failed != 0 ? failed : error; };
  for (int call : kAllowed) add(seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 0));
  for (int call : kOnSocket) {
    add(seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 1,
                         SCMP_A0_32(SCMP_CMP_EQ, static_cast<uint32_t>(options.socket))));
  }
  if (options.keep_stderr) {
    for (int call : {SCMP_SYS(write), SCMP_SYS(writev)}) {
      add(seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 1,
                           SCMP_A0_32(SCMP_CMP_EQ, STDERR_FILENO)));
    }
    // Streams look at what they write to before they write: nothing can be told.
    for (int call : {SCMP_SYS(fstat), SCMP_SYS(newfstatat), SCMP_SYS(lseek), SCMP_SYS(ioctl),
                     SCMP_SYS(fcntl)}) {
      add(seccomp_rule_add(filter, SCMP_ACT_ERRNO(EBADF), call, 0));
    }
  }
  // Limits may be read.
  add(seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 1,
                       SCMP_A2_64(SCMP_CMP_EQ, 0)));
  // Memory of no file: descriptor -1.
  add(seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
                       SCMP_A4_32(SCMP_CMP_EQ, 0xffffffffu)));
  // abort() of this process; its handler writes it down.
  add(seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 2,
                       SCMP_A0_32(SCMP_CMP_EQ, static_cast<uint32_t>(getpid())),
                       SCMP_A2_32(SCMP_CMP_EQ, SIGABRT)));
  add(seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0));
  return failed;
}

}  // namespace

absl::Status install_syscall_filter(const FilterOptions& options) {
  const std::unique_ptr<void, void (*)(void*)> filter(seccomp_init(SCMP_ACT_TRAP), seccomp_release);
  if (filter == nullptr) return absl::UnavailableError("seccomp_init");
  int error = add_rules(filter.get(), options);
  // Older systems slow filtered processes down against speculation (no store bypass): what is timed
  // here must run as it does in its consumer.
  if (error == 0) error = seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_SSB, 1);
  if (error == 0) error = seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_TSYNC, 1);
  if (error == 0) error = seccomp_load(filter.get());
  if (error == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("seccomp: ", strerrordesc_np(-error)));
}

std::string syscall_name(int number) {
  char* name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, number);
  if (name == nullptr) return absl::StrCat("syscall ", number);
  const std::string text(name);
  free(name);
  return text;
}

}  // namespace lw
