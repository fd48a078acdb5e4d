#include "src/measure/simt/common/driver_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/message.h"
#include "src/measure/process/ipc.h"
#include "src/measure/process/sandbox.h"

namespace lw {
namespace {

constexpr uint32_t kSaid = 1, kEnd = 2;    // messages of the process
constexpr int64_t kLongestSaid = 1 << 20;

[[noreturn]] void driver_main(int socket, const std::function<absl::Status(const Say&)>& work) {
  setpgid(0, 0);
  // Drivers chatter, and their end is told by who waits.
  const int null = open("/dev/null", O_RDWR);
  for (int fd : {0, 1, 2}) dup2(null, fd);
  close_descriptors_but({socket});
  for (int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM, SIGINT}) signal(s, SIG_DFL);
  limit_resources(0);                      // no core dumps
  const absl::Status status =
      work([socket](std::string_view said) { (void)send_message(socket, kSaid, said); });
  Writer end;
  end.put(static_cast<int32_t>(status.code())).put_string(std::string(status.message()));
  (void)send_message(socket, kEnd, end.bytes());
  _exit(0);
}

}  // namespace

absl::Status in_driver_process(double limit_s, const std::function<absl::Status(const Say&)>& work,
                               const Say& take) {
  std::pair<int, int> ends;
  ASSIGN_OR_RETURN(ends, socket_pair());
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    die_with_parent(parent);
    driver_main(ends.second, work);
  }
  close(ends.second);
  absl::Status result = pid < 0 ? absl::ResourceExhaustedError("cannot fork") : absl::OkStatus();
  const double deadline = now() + limit_s;
  bool died = false;
  while (pid > 0) {
    const absl::StatusOr<Message> message =
        receive_message(ends.first, std::max(deadline - now(), 0.0), kLongestSaid);
    died = absl::IsUnavailable(message.status());
    if (!message.ok()) {
      result = message.status();
    } else if (message->type == kEnd) {
      Reader reader(message->payload);
      const absl::StatusCode code = static_cast<absl::StatusCode>(reader.get<int32_t>());
      result = absl::Status(code, reader.get_string());
    } else {
      take(message->payload);
      continue;
    }
    break;
  }
  close(ends.first);
  if (pid <= 0) return result;
  if (!died) kill(-pid, SIGKILL), kill(pid, SIGKILL);
  int status = 0;
  waitpid(pid, &status, 0);
  kill(-pid, SIGKILL);                     // what it may have started
  return died ? absl::UnavailableError(describe_death(status, nullptr)) : result;
}

}  // namespace lw
