// The zygote's protocol, over one socket: it says kReady with the isolation that it could set up;
// the parent sends kSpawn with the role and a worker's end of a socket pair; the zygote answers
// kSpawned with the process id. Whenever a worker ends, the zygote reaps it and sends kEnded with
// its wait status. A closed socket means that the parent is gone, and so must be everything below.
// Forking a worker takes about 1 ms with LLVM loaded.
#include "src/measure/process/zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "absl/strings/str_join.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/message.h"
#include "src/measure/process/ipc.h"
#include "src/measure/process/sandbox.h"

namespace lw {
namespace {

enum : uint32_t { kSpawn = 1, kSpawned, kEnded, kReady };

constexpr double kStartTimeout = 30;  // namespaces and probe take some 5 ms

struct Ended {
  pid_t pid;
  int status;
};

// What the zygote's process knows.
struct Nursery {
  const Zygote::Main& main;
  int control;                   // its end of the parent's socket
  const std::vector<int>& keep;  // for the workers
  Isolation isolation;
  int self;                      // pidfd of this process
  int null;                      // /dev/null
};

// Forks one worker; only the zygote returns.
pid_t fork_worker(const Nursery& nursery, int role, int socket) {
  const pid_t pid = fork_isolated(nursery.isolation);
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int fd : {STDIN_FILENO, STDOUT_FILENO}) dup2(nursery.null, fd);
  std::vector<int> keep_open = nursery.keep;
  keep_open.push_back(socket);
  keep_open.push_back(nursery.self);
  close_descriptors_but(keep_open);
  const bool entered = enter_isolation(nursery.isolation, nursery.self);
  if (entered) nursery.main(role, socket, nursery.isolation);
  _exit(entered ? 0 : kNotIsolated);
}

[[noreturn]] void zygote_main(const Zygote::Main& main, int control, const std::vector<int>& keep,
                              bool shut_in) {
  // An interrupt from the terminal reaches the whole group: the parent decides what it means.
  signal(SIGINT, SIG_IGN);
  prctl(PR_SET_NAME, "lw-zygote");
  std::vector<int> keep_open = keep;
  keep_open.push_back(control);
  close_descriptors_but(keep_open);
  Nursery nursery{main, control, keep, {}, -1, open("/dev/null", O_RDWR | O_CLOEXEC)};
  if (fcntl(STDERR_FILENO, F_GETFD) < 0) dup2(nursery.null, STDERR_FILENO);
  if (shut_in) nursery.isolation = prepare_isolation();
  nursery.self = static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0));
  if (!send_message(control, kReady, Writer().put(nursery.isolation).bytes()).ok()) _exit(0);
  sigset_t ended;
  sigemptyset(&ended);
  sigaddset(&ended, SIGCHLD);
  sigprocmask(SIG_SETMASK, &ended, nullptr);
  const int signals = signalfd(-1, &ended, SFD_CLOEXEC | SFD_NONBLOCK);
  while (true) {
    pollfd wait[2] = {{control, POLLIN, 0}, {signals, POLLIN, 0}};
    if (poll(wait, 2, -1) < 0 && errno != EINTR) _exit(1);
    if (wait[1].revents != 0) {
      signalfd_siginfo info;
      while (read(signals, &info, sizeof info) > 0) {
      }
      int status;
      pid_t pid;
      while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        kill(-pid, SIGKILL);  // what it may have left behind in its group
        Writer ending;
        ending.put(Ended{pid, status});
        if (!send_message(control, kEnded, ending.bytes()).ok()) _exit(0);
      }
    }
    if (wait[0].revents != 0) {
      absl::StatusOr<Message> request = receive_message(control, -1, 64, /*take_fd=*/true);
      if (!request.ok()) _exit(0);  // its workers die with it
      const int role = Reader(request->payload).get<int>();
      const pid_t pid = fork_worker(nursery, role, request->fd);
      close(request->fd);
      Writer answer;
      answer.put(pid);
      if (!send_message(control, kSpawned, answer.bytes()).ok()) _exit(0);
    }
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Zygote>> Zygote::start(Main main, std::vector<int> keep,
                                                       IsolationLevel required, bool shut_in) {
  std::pair<int, int> ends;
  ASSIGN_OR_RETURN(ends, socket_pair());
  const pid_t parent = getpid();
  std::fflush(nullptr);  // or children would print it a second time
  const pid_t pid = fork();
  if (pid < 0) return absl::ResourceExhaustedError("cannot fork");
  if (pid == 0) {
    die_with_parent(parent);
    close(ends.first);
    zygote_main(main, ends.second, keep, shut_in);
  }
  close(ends.second);
  std::unique_ptr<Zygote> zygote = std::make_unique<Zygote>();
  zygote->pid_ = pid;
  zygote->socket_ = ends.first;
  ASSIGN_OR_RETURN(const Message ready, receive_message(ends.first, kStartTimeout));
  zygote->isolation_ = Reader(ready.payload).get<Isolation>();
  const IsolationLevel reached = zygote->isolation_.level();
  if (shut_in && reached < required) {
    return absl::FailedPreconditionError(
        concat("isolation '", isolation_name(required), "' is required, this machine gives '",
               isolation_name(reached), "'; missing: ",
               absl::StrJoin(zygote->isolation_.missing(), "; ")));
  }
  return zygote;
}

Zygote::~Zygote() {
  if (pid_ <= 0) return;
  shut_down();
  close(socket_);
  waitpid(pid_, nullptr, 0);
}

void Zygote::shut_down() {
  if (!down_.exchange(true)) kill(pid_, SIGKILL);
}

absl::StatusOr<Child> Zygote::spawn(int role) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (down_) return absl::CancelledError("shut down");
  std::pair<int, int> ends;
  ASSIGN_OR_RETURN(ends, socket_pair());
  Writer request;
  request.put(role);
  absl::Status sent = send_message(socket_, kSpawn, request.bytes(), ends.second);
  close(ends.second);
  while (sent.ok()) {
    absl::StatusOr<Message> answer = receive_message(socket_, 10);
    if (!answer.ok()) {
      sent = answer.status();
      break;
    }
    Reader reader(answer->payload);
    if (answer->type == kEnded) {
      const Ended ended = reader.get<Ended>();
      exits_[ended.pid] = ended.status;
      continue;
    }
    const pid_t pid = reader.get<pid_t>();
    if (pid > 0) return Child{pid, ends.first};
    sent = absl::ResourceExhaustedError("cannot fork a worker");
  }
  close(ends.first);
  return sent;
}

std::optional<int> Zygote::reported(pid_t pid, double timeout_s) {
  std::lock_guard<std::mutex> lock(mutex_);
  const double deadline = now() + timeout_s;
  while (exits_.count(pid) == 0) {
    absl::StatusOr<Message> message = receive_message(socket_, std::max(deadline - now(), 0.0));
    if (!message.ok()) return std::nullopt;
    const Ended ended = Reader(message->payload).get<Ended>();
    exits_[ended.pid] = ended.status;
  }
  const int status = exits_[pid];
  exits_.erase(pid);
  return status;
}

int Zygote::bury(const Child& child, double patience_s) {
  if (child.pid <= 0) return 0;
  std::optional<int> status;
  if (patience_s > 0) status = reported(child.pid, patience_s);
  if (!status && !down_) {
    // Not reported: the zygote has not reaped it, so the id is still this worker's.
    kill(child.pid, SIGKILL);
    status = reported(child.pid, 10);
  }
  close(child.socket);
  return status.value_or(0);
}

}  // namespace lw
