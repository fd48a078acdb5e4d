// One process for each job: what a kernel did to it cannot reach the next. Starting qemu and the
// static runner takes about 10 ms, less than most kernels take under emulation.
#include "src/measure/cpu/emulator.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/build/run_program.h"
#include "src/expr/expr.h"
#include "src/measure/process/sandbox.h"
#include "src/measure/run/guarded.h"
#include "src/measure/run/runner.h"

namespace lw {
namespace {

namespace fs = std::filesystem;

// What qemu itself maps besides the job's memory: translated code, its own libraries.
constexpr int64_t kEmulatorBytes = int64_t{2} << 30;

// Beside this program, else where programs are.
std::string find_beside(const std::string& name) {
  std::error_code error;
  const fs::path own = fs::read_symlink("/proc/self/exe", error).parent_path() / name;
  return !error && is_program(own.string()) ? own.string() : find_program(name);
}

// The runner's process, killed and reaped at the end.
class Process {
 public:
  ~Process() {
    if (socket_ >= 0) close(socket_);
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }

  absl::Status start(const Emulator& emulator, int64_t memory_limit_bytes) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return failed("socketpair");
    socket_ = ends[0];
    const rlim_t space = static_cast<rlim_t>(memory_limit_bytes + kEmulatorBytes);
    const pid_t parent = getpid();
    const char* command[] = {emulator.command.c_str(), emulator.runner.c_str(), nullptr};
    pid_ = fork();
    if (pid_ == 0) become(ends[1], parent, space, command);
    close(ends[1]);
    return pid_ > 0 ? absl::OkStatus() : failed("fork");
  }

  // False: the other end is gone.
  bool send_all(std::string_view data) {
    while (!data.empty()) {
      const ssize_t n = send(socket_, data.data(), data.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      data.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }

  absl::Status receive_all(char* data, size_t size, double deadline) {
    while (size > 0) {
      pollfd wait{socket_, POLLIN, 0};
      const double left_ms = deadline < 0 ? -1 : std::max(0.0, std::ceil((deadline - now()) * 1e3));
      const int ready = poll(&wait, 1, static_cast<int>(std::min(left_ms, 1e9)));
      if (ready < 0 && errno == EINTR) continue;
      if (ready == 0) return absl::DeadlineExceededError("the emulated kernel takes too long");
      const ssize_t n = recv(socket_, data, size, 0);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return absl::AbortedError(end());
      data += n;
      size -= static_cast<size_t>(n);
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status failed(const char* what) {
    return absl::UnavailableError(absl::StrCat(what, ": ", strerror(errno)));
  }

  // In the child, after a fork of what may be many threads: async-signal-safe calls only.
  [[noreturn]] static void become(int socket, pid_t parent, rlim_t space,
                                  const char* const* command) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(126);
    const rlimit none{0, 0}, memory{space, space};
    setrlimit(RLIMIT_CORE, &none);
    setrlimit(RLIMIT_AS, &memory);
    dup2(socket, 0);
    dup2(socket, 1);
    const int null = open("/dev/null", O_WRONLY);
    if (null >= 0) dup2(null, 2);
    // (An interrupt that is ignored here stays so: a worker's candidate is not to blame for it.)
    for (int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGPIPE}) signal(s, SIG_DFL);
    execv(command[0], const_cast<char* const*>(command));
    _exit(127);
  }

  // How it died; reaps it.
  std::string end() {
    int status = 0;
    if (waitpid(pid_, &status, 0) != pid_) return "unknown end";
    pid_ = -1;
    return describe_death(status, nullptr);
  }

  pid_t pid_ = -1;
  int socket_ = -1;
};

std::string describe(const runner::Crash& crash, const Program& program) {
  const std::vector<int> all = arguments(program);
  std::string where = absl::StrFormat("at address 0x%x", crash.address);
  for (const runner::Region& r : crash.regions) {
    if (crash.address < r.low || crash.address >= r.high) continue;
    const bool argument = r.argument >= 0 && r.argument < static_cast<int>(all.size());
    where = argument ? absl::StrCat("at or beside ", program.tensors[all[r.argument]].name)
                     : "at or beside its workspace";
  }
  return absl::StrCat(signal_name(crash.signal), crash.wrote ? ": write " : ": read ", where);
}

}  // namespace

absl::StatusOr<Emulator> find_emulator(const Target& target) {
  Emulator emulator;
  emulator.name = "qemu-" + target.architecture;
  emulator.command = find_program(emulator.name);
  if (emulator.command.empty()) {
    return absl::NotFoundError(
        absl::StrCat("there is no ", emulator.name, " on PATH (package qemu-user)"));
  }
  const std::string runner = "lw_runner_" + target.architecture;
  emulator.runner = find_beside(runner);
  if (emulator.runner.empty()) {
    return absl::NotFoundError(
        absl::StrCat("there is no ", runner, " beside this program or on PATH (it is built where "
                     "g++-aarch64-linux-gnu is installed)"));
  }
  return emulator;
}

absl::StatusOr<RunnerAnswer> ask_runner(const Emulator& emulator, runner::Frame type,
                                        std::string_view payload, double timeout_s,
                                        int64_t memory_limit_bytes) {
  const double deadline = timeout_s < 0 ? -1 : now() + timeout_s;
  Process process;
  RETURN_IF_ERROR(process.start(emulator, memory_limit_bytes));
  runner::Header header;
  header.type = type;
  header.bytes = payload.size();
  // Who dies early may still have said why: what could not be sent is no reason not to listen.
  if (process.send_all(runner::encode_header(header))) process.send_all(payload);
  std::string head(runner::kHeaderBytes, '\0');
  RETURN_IF_ERROR(process.receive_all(head.data(), head.size(), deadline));
  const std::optional<runner::Header> answer = runner::decode_header(head);
  if (!answer) return absl::AbortedError("the runner's answer is no frame");
  RunnerAnswer result{answer->type, std::string(answer->bytes, '\0')};
  RETURN_IF_ERROR(process.receive_all(result.payload.data(), result.payload.size(), deadline));
  return result;
}

runner::Job::Code make_code(const Artifact& artifact, const FlatImage& image, int workers) {
  runner::Job::Code code;
  code.base = image.base;
  code.image_bytes = image.bytes;
  code.run = image.run;
  code.prepack = artifact.packed_bytes > 0 ? image.prepack : 0;
  code.workspace_bytes = static_cast<uint64_t>(workspace_needed(artifact, workers));
  code.packed_bytes = static_cast<uint64_t>(aligned_bytes(artifact.packed_bytes));
  for (const FlatImage::Segment& s : image.segments) {
    code.segments.push_back({s.offset, s.bytes, s.writable, s.executable, s.content});
  }
  return code;
}

absl::Status run_emulated(const Emulator& emulator, const Program& program,
                          const Artifact& artifact, int workers, void* const* arguments,
                          double timeout_s) {
  ASSIGN_OR_RETURN(const FlatImage image, link_flat(artifact, kImageBase));
  runner::Job job;
  job.workers = static_cast<uint32_t>(workers);
  job.codes = {make_code(artifact, image, workers)};
  const std::vector<int> all = lw::arguments(program);
  std::vector<std::string> contents(all.size());
  int64_t memory = static_cast<int64_t>(job.codes[0].workspace_bytes + job.codes[0].packed_bytes);
  for (size_t i = 0; i < all.size(); ++i) {
    const Tensor& tensor = program.tensors[all[i]];
    const uint64_t size = static_cast<uint64_t>(bytes(tensor));
    runner::Job::Argument argument{static_cast<uint64_t>(pages_for(bytes(tensor))), 0, size,
                                   tensor.role == Role::kOutput, {}};
    if (!argument.output) {
      contents[i].assign(static_cast<const char*>(arguments[i]), size);
      contents[i].resize(argument.pages, static_cast<char>(kPoison));
      argument.content = contents[i];
    }
    memory += 3 * pages_for(bytes(tensor));
    job.arguments.push_back(argument);
  }
  ASSIGN_OR_RETURN(const RunnerAnswer answer,
                   ask_runner(emulator, runner::Frame::kJob, runner::encode_job(job), timeout_s,
                              memory));
  if (answer.type == runner::Frame::kCrash) {
    const std::optional<runner::Crash> crash = runner::decode_crash(answer.payload);
    return absl::InternalError(crash ? describe(*crash, program) : "the kernel crashed");
  }
  if (answer.type != runner::Frame::kResult) return absl::UnavailableError(answer.payload);
  const std::optional<runner::Result> result = runner::decode_result(answer.payload);
  if (!result || result->code != 0 || !result->intact) {
    return absl::InternalError("the kernel refused its arguments or wrote beside its workspace");
  }
  size_t output = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!job.arguments[i].output) continue;
    if (output >= result->outputs.size() ||
        result->outputs[output].size() != job.arguments[i].pages) {
      return absl::InternalError("the runner's outputs are not the job's");
    }
    memcpy(arguments[i], result->outputs[output++].data(), job.arguments[i].bytes);
  }
  return absl::OkStatus();
}

}  // namespace lw
