// Problem: a kernel under test is foreign machine code, often on a board that others share. A crash
// costs a process and is harmless; a kernel that means harm would fork, open, connect, kill, or
// wait until nobody watches.
//
// The ladder: a worker leaves root, privileges and file system behind before it has read anything,
// sets itself up (threads, memory), and then gives up everything else that the system offers. As
// root the user changes to nobody: the limit on processes does not bind root. Without root a user
// namespace gives the rights to make the other namespaces, and the worker drops them again.
//
// Cost: the zygote pays 4 ms once for namespaces and probe, a worker under 1 ms when it starts
// (medians on a virtual machine); a measurement nothing: a kernel makes no system calls.
#include "src/measure/process/isolation.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "nlohmann/json.hpp"
#include "src/base/message.h"
#include "src/measure/process/sandbox.h"
#include "src/measure/process/syscall_filter.h"

namespace lw {
namespace {

constexpr uid_t kNobody = 65534;
constexpr std::string_view kNames[] = {"none", "process", "limits", "filter", "namespaces"};

template <size_t N>
void note(char (&reason)[N], const char* what, const char* why) {
  std::snprintf(reason, N, "%s: %s", what, why);
}

bool write_file(const char* path, std::string_view text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(fd);
  return written;
}

// Without root, a user namespace in which this user has all rights over the other namespaces.
bool new_namespaces(Isolation* isolation) {
  const int wanted = CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC;
  const uid_t user = geteuid();
  const gid_t group = getegid();
  if (unshare(user == 0 ? wanted : wanted | CLONE_NEWUSER) != 0) {
    note(isolation->why_no_namespaces, "unshare", std::strerror(errno));
    return false;
  }
  isolation->network_namespace = isolation->ipc_namespace = true;
  if (user == 0) return true;
  write_file("/proc/self/setgroups", "deny");
  if (write_file("/proc/self/uid_map", concat(user, " ", user, " 1")) &&
      write_file("/proc/self/gid_map", concat(group, " ", group, " 1"))) {
    return true;
  }
  note(isolation->why_no_namespaces, "uid_map", std::strerror(errno));
  return false;
}

// An empty read-only file system over a folder that nobody here needs, seen by this process and its
// children only.
bool mount_empty_root(Isolation* isolation) {
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    note(isolation->why_no_namespaces, "private mounts", std::strerror(errno));
    return false;
  }
  for (const char* folder : {"/mnt", "/srv", "/media", "/tmp"}) {
    if (mount("tmpfs", folder, "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
              "size=4k,mode=555") == 0) {
      std::strncpy(isolation->root, folder, sizeof isolation->root - 1);
      return true;
    }
  }
  note(isolation->why_no_namespaces, "tmpfs", std::strerror(errno));
  return false;
}

bool can_fork_into_namespace() {
  Isolation isolation;
  isolation.pid_namespace = true;
  const pid_t pid = fork_isolated(isolation);
  if (pid == 0) _exit(getpid() == 1 ? 0 : 1);
  int status = 1;
  return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

// The folder of this process's group in the unified hierarchy; "" when there is none.
std::string unified_group() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("0::", 0) != 0) continue;
    for (const char* at : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
      const std::string folder = concat(at, line.substr(3));
      if (access((folder + "/cgroup.controllers").c_str(), R_OK) == 0) return folder;
    }
  }
  return "";
}

// Whoever starts us may have put us into a group with limits, as deploy/ does; making groups below
// our own would need them handed over empty, so that is as far as it goes.
void find_group_limits(Isolation* isolation) {
  const std::string folder = unified_group();
  if (folder.empty()) return note(isolation->why_no_cgroup, "cgroup", "no unified hierarchy");
  const auto limited = [&](const char* file) {
    std::string value;
    std::ifstream(folder + file) >> value;
    return !value.empty() && value != "max";
  };
  isolation->cgroup = limited("/memory.max") && limited("/pids.max");
  if (!isolation->cgroup) {
    note(isolation->why_no_cgroup, "cgroup", "memory.max and pids.max are not set for our group");
  }
}

bool drop_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  return syscall(SYS_capset, &header, none) == 0;
}

bool leave_root(const Isolation& isolation) {
  if (geteuid() == 0 && isolation.user != 0) {
    if (setgroups(0, nullptr) != 0) return false;
    if (setresgid(kNobody, kNobody, kNobody) != 0) return false;
    if (setresuid(kNobody, kNobody, kNobody) != 0) return false;
  }
  return drop_capabilities();
}

// A process that climbs all of it and says how far it came.
void climb(Isolation* isolation, Isolation* shared) {
  Isolation all = *isolation;
  all.process = all.limits = true;
  if (!enter_isolation(all, -1)) _exit(1);
  shared->process = true;
  if (!confine(all, Confinement())) _exit(1);
  shared->limits = true;
  if (kSanitized) {                        // its run time calls what the filter forbids
    note(shared->why_no_filter, "seccomp", "not under a sanitizer");
    _exit(0);
  }
  const absl::Status filtered = install_syscall_filter({});
  shared->filter = filtered.ok();
  if (!filtered.ok()) note(shared->why_no_filter, "seccomp", std::strerror(errno));
  _exit(0);
}

void probe(Isolation* isolation) {
  void* page = mmap(nullptr, sizeof(Isolation), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  Isolation* shared = new (page) Isolation();
  const auto try_climbing = [&] {
    const pid_t pid = fork_isolated(*isolation);
    if (pid == 0) climb(isolation, shared);
    if (pid > 0) waitpid(pid, nullptr, 0);
  };
  try_climbing();
  if (!shared->process && isolation->user == kNobody) {
    // A container's root without the right to change user.
    isolation->user = 0;
    try_climbing();
    note(isolation->why_no_process, "setuid", "not permitted, workers stay root");
  }
  isolation->process = shared->process && isolation->user != 0;
  isolation->limits = shared->limits;
  isolation->filter = shared->filter;
  std::memcpy(isolation->why_no_filter, shared->why_no_filter, sizeof shared->why_no_filter);
  munmap(page, sizeof(Isolation));
}

// Never above what holds already: without privileges that is refused.
void set_limit(int number, rlim_t value, bool* ok) {
  const __rlimit_resource resource = static_cast<__rlimit_resource>(number);
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) limit.rlim_max = value;
  limit.rlim_cur = limit.rlim_max = std::min(limit.rlim_max, value);
  *ok = setrlimit(resource, &limit) == 0 && *ok;
}

}  // namespace

std::string_view isolation_name(IsolationLevel level) { return kNames[static_cast<int>(level)]; }

absl::StatusOr<IsolationLevel> parse_isolation(std::string_view name) {
  for (int i = 0; i < 5; ++i) {
    if (kNames[i] == name) return static_cast<IsolationLevel>(i);
  }
  return absl::InvalidArgumentError(
      concat("isolation is none, process, limits, filter or namespaces, not '", name, "'"));
}

IsolationLevel Isolation::level() const {
  if (!process) return IsolationLevel::kNone;
  if (!limits) return IsolationLevel::kProcess;
  if (!filter) return IsolationLevel::kLimits;
  return namespaces() ? IsolationLevel::kNamespaces : IsolationLevel::kFilter;
}

std::vector<std::string> Isolation::missing() const {
  std::vector<std::string> words;
  const auto add = [&](bool there, const char* what, const char* why) {
    if (!there) words.push_back(concat(what, why[0] != 0 ? ": " : "", why));
  };
  add(process, "process", why_no_process);
  add(limits, "limits", "");
  add(filter, "filter", why_no_filter);
  add(namespaces(), "namespaces", why_no_namespaces);
  add(cgroup, "group limits", why_no_cgroup);
  return words;
}

std::string Isolation::json() const {
  const nlohmann::json document = {{"level", std::string(isolation_name(level()))},
                                   {"process", process},
                                   {"limits", limits},
                                   {"filter", filter},
                                   {"pid_namespace", pid_namespace},
                                   {"network_namespace", network_namespace},
                                   {"ipc_namespace", ipc_namespace},
                                   {"empty_root", empty_root},
                                   {"cgroup", cgroup},
                                   {"user", user},
                                   {"missing", missing()}};
  return document.dump();
}

Isolation prepare_isolation() {
  Isolation isolation;
  isolation.user = geteuid() == 0 ? kNobody : geteuid();
  find_group_limits(&isolation);
  if (new_namespaces(&isolation)) {
    isolation.empty_root = mount_empty_root(&isolation);
    isolation.pid_namespace = can_fork_into_namespace();
    if (!isolation.pid_namespace) note(isolation.why_no_namespaces, "pid namespace", "refused");
  }
  probe(&isolation);
  return isolation;
}

pid_t fork_isolated(const Isolation& isolation) {
  if (!isolation.pid_namespace) return fork();
  // The C library's fork takes no flags. What it does besides: it runs handlers (one thread: no
  // lock is held) and keeps the thread's id, whose place the system knows.
  void* thread_id = nullptr;
  prctl(PR_GET_TID_ADDRESS, &thread_id);
  const long flags = CLONE_NEWPID | SIGCHLD |
                     (thread_id != nullptr ? CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID : 0);
#if defined(__x86_64__)
  return static_cast<pid_t>(syscall(SYS_clone, flags, 0, 0, thread_id, 0));
#else
  return static_cast<pid_t>(syscall(SYS_clone, flags, 0, 0, 0, thread_id));
#endif
}

bool enter_isolation(const Isolation& isolation, int parent_fd) {
  setpgid(0, 0);
  watch_address_space();
  if (isolation.empty_root && (chdir(isolation.root) != 0 || chroot(".") != 0)) return false;
  if (isolation.process && !leave_root(isolation)) return false;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  prctl(PR_SET_DUMPABLE, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a change of user forgets it
  pollfd parent{parent_fd, POLLIN, 0};
  return parent_fd < 0 || poll(&parent, 1, 0) == 0;
}

bool confine(const Isolation& isolation, const Confinement& confinement) {
  limit_resources(confinement.memory_bytes);
  // From here on nothing of the parent's memory can be mapped a second time.
  close_descriptors_but({confinement.socket});
  bool ok = true;
  set_limit(RLIMIT_NPROC, 0, &ok);
  set_limit(RLIMIT_FSIZE, 0, &ok);
  set_limit(RLIMIT_NOFILE, 3, &ok);  // all three are taken
  set_limit(RLIMIT_MSGQUEUE, 0, &ok);
  if (confinement.cpu_seconds > 0) {
    set_limit(RLIMIT_CPU, static_cast<rlim_t>(confinement.cpu_seconds), &ok);
  }
  if (isolation.limits && !ok) return false;
  if (!isolation.filter) return true;
  return install_syscall_filter({confinement.socket, confinement.keep_stderr}).ok();
}

Isolation detect_isolation() {
  Isolation isolation;
  void* page = mmap(nullptr, sizeof(Isolation), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return isolation;
  new (page) Isolation();
  const pid_t pid = fork();
  if (pid == 0) {
    *static_cast<Isolation*>(page) = prepare_isolation();
    _exit(0);
  }
  if (pid > 0) waitpid(pid, nullptr, 0);
  isolation = *static_cast<Isolation*>(page);
  munmap(page, sizeof(Isolation));
  return isolation;
}

}  // namespace lw
