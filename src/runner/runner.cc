// lw_runner: runs kernels on a device for a host at the other end of stdin and stdout (under an
// emulator, through ssh, behind a serial line). Static, cross-compiled alone, no loader: the host
// has linked the code to its address.
//
// A frame comes, is decoded and answered. A job has a process of its own, in which its memory is
// mapped and its code runs: what a kernel does to that reaches nobody else, and one that crashes
// first tells where. One that loops is the host's to give up: when the input ends, it ends too.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "src/base/parallel_pool.h"
#include "src/runner/crash.h"
#include "src/runner/emulation.h"
#include "src/runner/job.h"
#include "src/runner/memory.h"
#include "src/runner/stream.h"

namespace lw::runner {
namespace {

bool refuse(std::string_view why) { return send(Frame::kRefusal, why); }

// The value of the first line of /proc/cpuinfo that begins with these words; "": there is none.
std::string cpuinfo(std::string_view words) {
  std::string found;
  FILE* const file = fopen("/proc/cpuinfo", "r");
  char line[512];
  while (file != nullptr && found.empty() && fgets(line, sizeof line, file) != nullptr) {
    const std::string_view text(line);
    const size_t colon = text.find(": ");
    if (text.starts_with(words) && colon != text.npos) {
      found = text.substr(colon + 2, text.find_last_not_of('\n') - colon - 1);
    }
  }
  if (file != nullptr) fclose(file);
  return found;
}

std::string cpu_model() {
  const std::string name = cpuinfo("model name");
  return name.empty() ? cpuinfo("CPU implementer") + " " + cpuinfo("CPU part") : name;
}

bool greet() {
  Greeting greeting;
  greeting.page_bytes = static_cast<uint32_t>(page_size());
  greeting.processors = static_cast<uint32_t>(allowed_cpus().size());
  utsname name;
  if (uname(&name) == 0) {
    greeting.machine = name.machine;
    greeting.system = name.release;
  }
  greeting.cpu = cpu_model();
  greeting.emulator = emulator();
  return send(Frame::kGreeting, encode_greeting(greeting));
}

// Of a job's process: it has ended by itself; false: the host is gone, and so is the process.
bool await(pid_t child, int its_end, int* status) {
  pollfd wait[] = {{its_end, POLLIN, 0}, {kIn, POLLRDHUP, 0}};
  while (poll(wait, 2, -1) < 0 && errno == EINTR) {
  }
  const bool over = wait[0].revents != 0;
  if (!over) kill(child, SIGKILL);
  while (waitpid(child, status, 0) < 0 && errno == EINTR) {
  }
  return over;
}

bool serve_job(const Job& job) {
  int ends[2];                             // which close with the process
  if (pipe(ends) != 0) return refuse("no process for a job");
  const pid_t runner = getpid(), child = fork();
  if (child == 0) {
    close(ends[0]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != runner) _exit(1);
    const Answer answer = run_job(job);
    _exit(send(answer.type, answer.payload) ? 0 : 1);
  }
  close(ends[1]);
  int status = 0;
  const bool over = child > 0 && await(child, ends[0], &status);
  close(ends[0]);
  if (child < 0) return refuse("no process for a job");
  if (!over) return false;
  if (!WIFSIGNALED(status)) return WEXITSTATUS(status) == 0;
  Crash crash;                             // of which it could say nothing
  crash.signal = WTERMSIG(status);
  return send(Frame::kCrash, encode_crash(crash));
}

// Answers one frame; false: the other end is gone or speaks something else.
bool serve() {
  char head[kHeaderBytes];
  if (!read_all(head, sizeof head)) return false;
  const std::optional<Header> header = decode_header({head, sizeof head});
  if (!header) {
    refuse("not a frame of this protocol's version");
    return false;
  }
  // Memory that the device does not have ends the process, which the host sees.
  std::string payload(header->bytes, '\0');
  if (!read_all(payload.data(), payload.size())) return false;
  if (header->type == Frame::kHello) return greet();
  if (header->type != Frame::kJob) return refuse("no request");
  const std::optional<Job> job = decode_job(payload);
  return job ? serve_job(*job) : refuse("a malformed job");
}

}  // namespace
}  // namespace lw::runner

int main() {
  signal(SIGPIPE, SIG_IGN);
  lw::runner::watch_crashes();
  while (lw::runner::serve()) {
  }
  return 0;
}
