#include "src/measure/exec/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "absl/strings/escaping.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/message.h"
#include "src/measure/process/sandbox.h"

namespace lw {
namespace {

constexpr off_t kMostErrors = 1 << 20;     // of what a program says, before it is forgotten
constexpr double kDying = 1;               // seconds, of one whose output has ended

double deadline_in(double limit_s) { return limit_s < 0 ? -1 : now() + limit_s; }

struct Ready {
  bool reads = false, says = false;        // there is room in its input, something (or the end) in
                                           // its output; neither: the time is over
};
// `in` -1: whether it reads does not matter.
Ready wait_for(int in, int out, double deadline) {
  while (true) {
    pollfd wait[] = {{out, POLLIN, 0}, {in, POLLOUT, 0}};
    const double left_ms = deadline < 0 ? -1 : std::max(0.0, std::ceil((deadline - now()) * 1e3));
    const int ready = poll(wait, 2, static_cast<int>(std::min(left_ms, 1e9)));
    if (ready == 0) return {};
    if (ready > 0) return {wait[1].revents != 0, wait[0].revents != 0};
    if (errno != EINTR) return {true, true};
  }
}

// In the child, after a fork of what may be many threads: async-signal-safe calls only.
[[noreturn]] void become(int in, int out, int errors, pid_t parent, const char* const* words) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(126);
  setpgid(0, 0);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  dup2(in, 0);
  dup2(out, 1);
  dup2(errors, 2);
  syscall(SYS_close_range, 3u, ~0u, 0u);
  for (int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGPIPE, SIGINT, SIGTERM}) {
    signal(s, SIG_DFL);
  }
  sigset_t all;
  sigemptyset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  execv(words[0], const_cast<char* const*>(words));
  _exit(127);
}

absl::Status no_process(const char* what) {
  return absl::UnavailableError(concat(what, ": ", strerror(errno)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ExecProgram>> ExecProgram::start(const std::string& command,
                                                                std::string_view magic) {
  std::unique_ptr<ExecProgram> program(new ExecProgram(magic));
  // One for each direction, so that either may end alone; sockets, whose writers get no signal.
  int in[2], out[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0) return no_process("socketpair");
  program->in_ = in[0];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, out) != 0) {
    close(in[1]);
    return no_process("socketpair");
  }
  program->out_ = out[0];
  program->errors_ = memfd_create("exec-errors", MFD_CLOEXEC);
  if (program->errors_ >= 0) fcntl(program->errors_, F_SETFL, O_APPEND);
  // The shell splits the words, and is the program's process no more then.
  const std::string line = "exec " + command;
  const char* const words[] = {"/bin/sh", "-c", line.c_str(), nullptr};
  const pid_t parent = getpid();
  program->pid_ = fork();
  if (program->pid_ == 0) become(in[1], out[1], program->errors_, parent, words);
  close(in[1]);
  close(out[1]);
  if (program->pid_ < 0) return no_process("fork");
  return program;
}

ExecProgram::~ExecProgram() {
  if (in_ >= 0) close(in_);
  if (out_ >= 0) close(out_);
  if (pid_ > 0) {
    kill(-pid_, SIGKILL);                  // its group, once it has one
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (errors_ >= 0) close(errors_);
}

absl::Status ExecProgram::send(const std::vector<std::string_view>& parts, double limit_s,
                               size_t piece) {
  const double deadline = deadline_in(limit_s);
  struct stat said;
  if (errors_ >= 0 && fstat(errors_, &said) == 0 && said.st_size > kMostErrors) {
    if (ftruncate(errors_, 0) != 0) return no_process("its standard error");
  }
  for (std::string_view part : parts) {
    while (!part.empty()) {
      const Ready ready = wait_for(in_, out_, deadline);
      if (ready.says) {
        // Its end, garbage, or an answer to what it cannot know.
        const absl::Status received = receive_header(limit_s).status();
        return received.ok() ? absl::UnavailableError("it answers a request that it has not read")
                             : received;
      }
      if (!ready.reads) return absl::DeadlineExceededError("it does not read the request");
      const ssize_t n = ::send(in_, part.data(), std::min(part.size(), piece),
                               MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (n <= 0) return ended();
      part.remove_prefix(static_cast<size_t>(n));
    }
  }
  return absl::OkStatus();
}

absl::Status ExecProgram::receive_all(char* data, size_t size, double deadline) {
  size_t done = 0;
  while (done < size) {
    if (!wait_for(-1, out_, deadline).says) {
      return absl::DeadlineExceededError("it does not answer");
    }
    const ssize_t n = recv(out_, data + done, size - done, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return ended();
    done += static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ExecProgram::receive_header(double limit_s) {
  const double deadline = deadline_in(limit_s);
  std::string bytes(kHeaderBytes, '\0');
  // A few bytes of garbage may be all that ever comes: the first four say what it is.
  const size_t first = magic_.size();
  RETURN_IF_ERROR(receive_all(bytes.data(), first, deadline));
  if (bytes.starts_with(magic_)) {
    RETURN_IF_ERROR(receive_all(bytes.data() + first, bytes.size() - first, deadline));
    return bytes;
  }
  const ssize_t more = recv(out_, bytes.data() + first, bytes.size() - first, MSG_DONTWAIT);
  bytes.resize(first + static_cast<size_t>(std::max<ssize_t>(more, 0)));
  return absl::UnavailableError(
      concat("its answer is no frame: no frame begins with '", absl::CEscape(bytes), "'"));
}

absl::StatusOr<std::string> ExecProgram::receive(size_t bytes, double limit_s) {
  std::string text(bytes, '\0');
  RETURN_IF_ERROR(receive_all(text.data(), text.size(), deadline_in(limit_s)));
  return text;
}

bool ExecProgram::has_input(double limit_s) {
  return wait_for(-1, out_, deadline_in(limit_s)).says;
}

bool ExecProgram::ends(double limit_s, int* status) {
  shutdown(in_, SHUT_WR);
  const double deadline = deadline_in(limit_s);
  while (true) {
    if (waitpid(pid_, status, WNOHANG) == pid_) {
      kill(-pid_, SIGKILL);
      pid_ = -1;
      return true;
    }
    if (deadline >= 0 && now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// A program may close its output and go on: then it is ended here.
absl::Status ExecProgram::ended() {
  int status = 0;
  if (pid_ > 0 && !ends(kDying, &status)) {
    return absl::UnavailableError(concat("it has closed its output", last_words()));
  }
  return absl::UnavailableError(
      concat("it has ended (", describe_death(status, nullptr), ")", last_words()));
}

std::string ExecProgram::last_words() {
  constexpr off_t kTail = 512;
  struct stat said;
  if (errors_ < 0 || fstat(errors_, &said) != 0 || said.st_size == 0) return "";
  std::string text(static_cast<size_t>(std::min(kTail, said.st_size)), '\0');
  const ssize_t n = pread(errors_, text.data(), text.size(),
                          said.st_size - static_cast<off_t>(text.size()));
  text.resize(static_cast<size_t>(std::max<ssize_t>(n, 0)));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const size_t line = text.rfind('\n');
  text = text.substr(line == std::string::npos ? 0 : line + 1);
  for (char& c : text) c = static_cast<unsigned char>(c) < ' ' || c == 0x7f ? ' ' : c;
  return text.empty() ? "" : concat(": ", text);
}

}  // namespace lw
