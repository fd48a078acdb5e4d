#include "src/build/run_program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "src/base/clock.h"
#include "src/base/message.h"

namespace lw {
namespace {

constexpr int kNotStarted = 127;           // exit status of a child that became no program
constexpr rlim_t kMostWritten = 256 << 20;  // bytes of a file, of what it says too

class OwnDescriptor {
 public:
  explicit OwnDescriptor(int fd) : fd_(fd) {}
  OwnDescriptor(const OwnDescriptor&) = delete;
  OwnDescriptor& operator=(const OwnDescriptor&) = delete;
  ~OwnDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  const int fd_;
};

// In the child, after a fork of what may be many threads: async-signal-safe calls only.
[[noreturn]] void become_program(char* const* words, const char* folder, int output, int errors,
                                 int failure, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kNotStarted);
  setpgid(0, 0);
  rlimit limit{0, 0};
  setrlimit(RLIMIT_CORE, &limit);
  limit = {kMostWritten, kMostWritten};
  setrlimit(RLIMIT_FSIZE, &limit);
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, 0);
  dup2(output, 1);
  dup2(errors, 2);
  for (int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGPIPE, SIGINT, SIGTERM,
                SIGCHLD}) {
    signal(s, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // All else closes as the program starts, what others have opened without O_CLOEXEC too.
  syscall(SYS_close_range, 3u, ~0u, 1u << 2 /* CLOSE_RANGE_CLOEXEC */);
  if (chdir(folder) == 0) execv(words[0], words);
  const int error = errno;
  (void)!write(failure, &error, sizeof error);
  _exit(kNotStarted);
}

// Whether the child has ended, within the time; it is yet to be waited for.
bool ends_by(pid_t child, double deadline) {
  const OwnDescriptor watch(static_cast<int>(syscall(SYS_pidfd_open, child, 0)));
  while (true) {
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0) {
      if (info.si_pid == child) return true;
    } else if (errno != EINTR) {
      return true;                         // somebody else has waited for it
    }
    const double left_s = deadline - now();
    if (left_s <= 0) return false;
    // Where there are no descriptors of processes: every millisecond.
    pollfd wait{watch.get(), POLLIN, 0};
    const double most_s = watch.get() >= 0 ? 1 : 1e-3;
    poll(&wait, watch.get() >= 0 ? 1 : 0,
         static_cast<int>(std::ceil(std::min(left_s, most_s) * 1e3)));
  }
}

std::string whole_file(int fd) {
  const off_t size = lseek(fd, 0, SEEK_END);
  std::string text(static_cast<size_t>(std::max<off_t>(size, 0)), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = pread(fd, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  text.resize(done);
  return text;
}

absl::Status not_started(const std::string& program, int error) {
  return absl::UnavailableError(concat("cannot run ", program, ": ", strerror(error)));
}

}  // namespace

bool is_program(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

std::vector<std::string> program_folders() {
  const char* path = getenv("PATH");
  return absl::StrSplit(path == nullptr ? "" : path, ':', absl::SkipEmpty());
}

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  for (const std::string& folder : program_folders()) {
    const std::string file = concat(folder, "/", name);
    if (is_program(file)) return file;
  }
  return "";
}

std::string ProgramEnd::how() const {
  if (WIFSIGNALED(status)) return concat("signal ", WTERMSIG(status));
  return concat("exit status ", WEXITSTATUS(status));
}

absl::StatusOr<ProgramEnd> run_program(const std::vector<std::string>& words,
                                       const std::string& folder, double limit_s) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  const OwnDescriptor output(memfd_create("output", MFD_CLOEXEC));
  const OwnDescriptor errors(memfd_create("errors", MFD_CLOEXEC));
  const OwnDescriptor failure(memfd_create("failure", MFD_CLOEXEC));
  if (output.get() < 0 || errors.get() < 0 || failure.get() < 0) {
    return not_started(words[0], errno);
  }
  const pid_t parent = getpid(), child = fork();
  if (child == 0) {
    become_program(pointers.data(), folder.c_str(), output.get(), errors.get(), failure.get(),
                   parent);
  }
  if (child < 0) return not_started(words[0], errno);
  const bool ended = ends_by(child, now() + limit_s);
  // Before it is waited for: until then nobody else can have its number, nor its group's.
  kill(-child, SIGKILL);
  kill(child, SIGKILL);
  ProgramEnd end;
  pid_t waited;
  while ((waited = waitpid(child, &end.status, 0)) < 0 && errno == EINTR) {
  }
  if (!ended) {
    return absl::DeadlineExceededError(
        absl::StrFormat("%s takes more than %g s", words[0], limit_s));
  }
  if (waited != child) {
    return absl::UnavailableError(concat("how ", words[0], " ended is unknown"));
  }
  const std::string why = whole_file(failure.get());
  if (!why.empty()) {
    int error = 0;
    memcpy(&error, why.data(), std::min(why.size(), sizeof error));
    return not_started(words[0], error);
  }
  end.output = whole_file(output.get());
  end.errors = whole_file(errors.get());
  return end;
}

}  // namespace lw
