// A small process, forked early, that forks the workers: a fork of the tuner itself would copy the
// page tables of its databases and models and whatever locks its threads hold at that moment.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "src/measure/process/isolation.h"

namespace lw {

// A worker: its process and the parent's end of its socket.
struct Child {
  pid_t pid = -1;
  int socket = -1;
};

// Thread-safe. Destroying it kills the zygote and all its workers; so does the end of this process
// (even by SIGKILL) or of the thread that started it.
class Zygote {
 public:
  // What a worker does: `role` chooses; `socket` is its end. It runs in the worker's process, which
  // ends when it returns. `keep` are the descriptors besides `socket` that workers need.
  // It has entered the isolation (isolation.h) and confines itself once it is set up.
  using Main = std::function<void(int role, int socket, const Isolation& isolation)>;
  // kFailedPrecondition: this machine cannot shut workers in as well as `required`.
  // `shut_in` false: workers are not isolated at all (an emulator shuts kernels in).
  static absl::StatusOr<std::unique_ptr<Zygote>> start(
      Main main, std::vector<int> keep, IsolationLevel required = IsolationLevel::kNone,
      bool shut_in = true);
  ~Zygote();

  absl::StatusOr<Child> spawn(int role);
  // Kills (if it still runs) and reaps a worker, closes its socket; its wait status.
  // `patience_s`: how long it may take to die by itself first.
  int bury(const Child& child, double patience_s = 0);
  // Kills all workers, now and for good: whoever waits for one of them gets no answer.
  void shut_down();
  // How its workers are shut in.
  const Isolation& isolation() const { return isolation_; }

 private:
  std::optional<int> reported(pid_t pid, double timeout_s);

  Isolation isolation_;
  std::mutex mutex_;
  std::atomic<bool> down_ = false;
  pid_t pid_ = -1;
  int socket_ = -1;
  std::map<pid_t, int> exits_;  // reported and not yet asked for
};

}  // namespace lw
