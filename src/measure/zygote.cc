// The zygote's protocol, over one socket: the parent sends kSpawn with the role and a worker's end
// of a socket pair; the zygote answers kSpawned with the process id. Whenever a worker ends, the
// zygote reaps it and sends kEnded with its wait status. A closed socket means that the parent is
// gone, and so must be everything below. Forking a worker takes about 1 ms with LLVM loaded.
#include "src/measure/zygote.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "src/base/check.h"
#include "src/measure/ipc.h"
#include "src/measure/sandbox.h"
#include "src/measure/timing.h"

namespace lw {
namespace {

enum : uint32_t { kSpawn = 1, kSpawned, kEnded };

struct Ended {
  pid_t pid;
  int status;
};

// Forks one worker; only the zygote returns.
pid_t fork_worker(const Zygote::Main& main, int role, int socket, int control,
                  const std::vector<int>& keep) {
  const pid_t zygote = getpid();
  const pid_t pid = fork();
  if (pid != 0) return pid;
  die_with_parent(zygote);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  close(control);
  std::vector<int> keep_open = keep;
  keep_open.push_back(socket);
  close_descriptors_but(keep_open);
  main(role, socket);
  _exit(0);
}

[[noreturn]] void zygote_main(const Zygote::Main& main, int control, const std::vector<int>& keep) {
  // An interrupt from the terminal reaches the whole group: the parent decides what it means.
  signal(SIGINT, SIG_IGN);
  prctl(PR_SET_NAME, "lw-zygote");
  std::vector<int> keep_open = keep;
  keep_open.push_back(control);
  close_descriptors_but(keep_open);
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
        Writer ending;
        ending.put(Ended{pid, status});
        if (!send_message(control, kEnded, ending.bytes()).ok()) _exit(0);
      }
    }
    if (wait[0].revents != 0) {
      absl::StatusOr<Message> request = receive_message(control);
      if (!request.ok()) _exit(0);  // its workers die with it
      const int role = Reader(request->payload).get<int>();
      const pid_t pid = fork_worker(main, role, request->fd, control, keep);
      close(request->fd);
      Writer answer;
      answer.put(pid);
      if (!send_message(control, kSpawned, answer.bytes()).ok()) _exit(0);
    }
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Zygote>> Zygote::start(Main main, std::vector<int> keep) {
  std::pair<int, int> ends;
  ASSIGN_OR_RETURN(ends, socket_pair());
  const pid_t parent = getpid();
  std::fflush(nullptr);  // or children would print it a second time
  const pid_t pid = fork();
  if (pid < 0) return absl::ResourceExhaustedError("cannot fork");
  if (pid == 0) {
    die_with_parent(parent);
    close(ends.first);
    zygote_main(main, ends.second, keep);
  }
  close(ends.second);
  std::unique_ptr<Zygote> zygote = std::make_unique<Zygote>();
  zygote->pid_ = pid;
  zygote->socket_ = ends.first;
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
