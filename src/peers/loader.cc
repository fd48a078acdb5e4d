#include "src/peers/loader.h"

#include <dirent.h>
#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

namespace lw {
namespace {

std::vector<int> thread_ids() {
  std::vector<int> ids;
  DIR* tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return ids;
  while (const dirent* entry = readdir(tasks))
    if (entry->d_name[0] != '.') ids.push_back(std::atoi(entry->d_name));
  closedir(tasks);
  std::sort(ids.begin(), ids.end());
  return ids;
}

// The threads that each library has started, by what appears while it has control.
class ThreadWatch {
 public:
  template <class Call>
  void during(const std::string& library, const Call& call) {
    const std::vector<int> before = thread_ids();
    call();
    const std::vector<int> after = thread_ids();
    std::set_difference(after.begin(), after.end(), before.begin(), before.end(),
                        std::back_inserter(threads_[library]));
  }

  // Threads that have ended refuse quietly.
  void pin(const std::string& library, const std::vector<int>& cpus) {
    if (cpus.empty()) return;
    size_t next = 1;
    for (int id : threads_[library]) {
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(cpus[next % cpus.size()], &set);
      if (sched_setaffinity(id, sizeof(set), &set) == 0) ++next;
    }
  }

 private:
  std::map<std::string, std::vector<int>> threads_;
};

ThreadWatch& watch() {
  static ThreadWatch instance;
  return instance;
}

std::filesystem::path peer_folder() {
  if (const char* chosen = std::getenv("LOOPWRIGHT_PEERS")) return chosen;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path beside = program.parent_path() / "peers";
  if (std::filesystem::is_directory(beside, error)) return beside;
  return program.parent_path() / "../lib/loopwright/peers";
}

Peer* load(const std::filesystem::path& file, std::string* why) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    *why = dlerror();
    return nullptr;
  }
  auto entry = reinterpret_cast<Peer* (*)(std::string*)>(dlsym(library, "lw_peer"));
  if (entry == nullptr) {
    *why = "exports no lw_peer";
    return nullptr;
  }
  return entry(why);
}

PeerLibraries find_peers() {
  const std::string prefix = "lw_peer_";
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(peer_folder(), error))
    if (entry.path().extension() == ".so" && entry.path().stem().string().rfind(prefix, 0) == 0)
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  PeerLibraries found;
  for (const std::filesystem::path& file : files) {
    const std::string name = file.stem().string().substr(prefix.size());
    std::string why = "refused";
    Peer* peer = nullptr;
    watch().during(name, [&] { peer = load(file, &why); });
    if (peer != nullptr)
      found.peers.push_back(peer);
    else
      found.missing.push_back(name + ": " + why);
  }
  return found;
}

}  // namespace

const PeerLibraries& load_peers() {
  static const PeerLibraries libraries = find_peers();
  return libraries;
}

std::vector<PeerContender> prepare_peers(const PeerCase& description, void* const* arguments,
                                         int threads, const std::vector<int>& cpus) {
  std::vector<PeerContender> contenders;
  if (std::holds_alternative<std::monostate>(description)) return contenders;
  for (Peer* peer : load_peers().peers) {
    watch().during(peer->name(), [&] {
      for (PeerKernel& kernel : peer->prepare(description, arguments, threads)) {
        kernel.run();
        contenders.push_back({peer->name(), peer->version(), kernel.mode, kernel.implementation,
                              [peer, threads] { peer->use_threads(threads); },
                              std::move(kernel.run)});
      }
    });
    watch().pin(peer->name(), cpus);
  }
  return contenders;
}

}  // namespace lw
