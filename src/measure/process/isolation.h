// How well workers are shut in on this machine. Every rung of the ladder is tried, never assumed: a
// rung counts when a probe process has really climbed it, and a worker that cannot follow ends
// before it has run anything foreign.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lw {

// Each includes those before it.
enum class IsolationLevel : int {
  kNone,
  kProcess,     // own process group, dies with its parent, no new privileges, no ptrace, not root
  kLimits,      // no forks, no files, no descriptors, bounded memory and processor time
  kFilter,      // seccomp: no system calls beyond memory, futexes, clocks and its socket
  kNamespaces,  // own processes, network, IPC and mounts, and an empty root folder
};
std::string_view isolation_name(IsolationLevel level);  // "none", "process", "limits", ...
absl::StatusOr<IsolationLevel> parse_isolation(std::string_view name);  // kInvalidArgument

// Exit status of a worker that could not have the isolation it was promised.
constexpr int kNotIsolated = 96;

// Trivially copyable: it travels between processes.
struct Isolation {
  bool process = false, limits = false, filter = false;
  bool pid_namespace = false, network_namespace = false, ipc_namespace = false;
  bool empty_root = false;
  bool cgroup = false;          // memory and pids of all workers together
  uid_t user = 0;               // that workers run as
  char root[32] = "";           // the empty folder, for workers to change their root to
  char why_no_namespaces[96] = "", why_no_cgroup[96] = "", why_no_filter[96] = "",
       why_no_process[96] = "";

  bool namespaces() const {
    return pid_namespace && network_namespace && ipc_namespace && empty_root;
  }
  IsolationLevel level() const;
  // What is missing, in words; empty: nothing.
  std::vector<std::string> missing() const;
  // {"level":"namespaces","filter":true,...,"missing":["cgroup: ..."]}
  std::string json() const;
};

// The zygote's part, before it forks anything: namespaces that all its workers share, their empty
// root. Then climbs the whole ladder once in a process of its own. REQUIRES: one thread.
Isolation prepare_isolation();

// fork(), into a pid namespace of its own where `isolation` says so: whatever the child starts dies
// with it. REQUIRES: one thread.
pid_t fork_isolated(const Isolation& isolation);

// A worker's part, in two steps around its set-up. First: root folder, user, privileges; before it
// starts threads. `parent_fd`: a pidfd of its parent (-1: unknown), whose end is its own.
// False: the isolation promised cannot be had; the worker must end.
bool enter_isolation(const Isolation& isolation, int parent_fd);

struct Confinement {
  int socket = -1;               // all that stays open
  int64_t memory_bytes = 0;      // that may be added from now on; 0: any
  int64_t cpu_seconds = 0;       // of the process, in total; 0: any
  bool keep_stderr = false;
};
// Second: limits and filter, for good; called once all threads exist and all memory is mapped.
bool confine(const Isolation& isolation, const Confinement& confinement);

// What `prepare_isolation` finds here, in a process of its own: for `doctor` and for agents that
// describe themselves. About 4 ms.
Isolation detect_isolation();

}  // namespace lw
