#include "src/measure/memory.h"

#include <algorithm>
#include <fstream>
#include <limits>

#include "loopwright/program.h"
#include "src/base/message.h"
#include "src/measure/workers/workbench.h"

namespace lw {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();
constexpr double kOutputs = 3;             // measured, expected, and compared with

// The number in the file; "max" and what cannot be read are no limit.
double limit_in(const std::string& path) {
  std::ifstream in(path);
  double bytes = 0;
  return in >> bytes && bytes > 0 ? bytes : kNone;
}

// The least of the folder's and of all above it, up to `mount`.
double least_above(const std::string& mount, std::string folder, const char* file) {
  double least = limit_in(concat(mount, "/", file));
  while (folder.size() > 1) {
    least = std::min(least, limit_in(concat(mount, folder, "/", file)));
    folder.resize(folder.rfind('/'));
  }
  return least;
}

double machine_memory(const std::string& root) {
  std::ifstream in(root + "/proc/meminfo");
  std::string name;
  double kib = 0;
  return in >> name >> kib && name == "MemTotal:" ? kib * 1024 : kNone;
}

}  // namespace

double measuring_bytes(const Program& program) {
  double total = 0;
  for (int t : arguments(program)) {
    const Tensor& tensor = program.tensors[t];
    const double times = tensor.role == Role::kOutput ? kOutputs : double{kInputSets};
    total += times * static_cast<double>(bytes(tensor));
  }
  return total;
}

double memory_limit(const std::string& root) {
  double least = machine_memory(root);
  // Lines "0::/system.slice/agent.service" (version 2) or "9:memory:/docker/1f..." (version 1).
  std::ifstream in(root + "/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string kind = line.substr(first + 1, second - first - 1);
    const std::string folder = line.substr(second + 1);
    const bool is_first = concat(",", kind, ",").find(",memory,") != std::string::npos;
    if (kind.empty()) {
      least = std::min(least, least_above(root + "/sys/fs/cgroup", folder, "memory.max"));
    } else if (is_first) {
      least = std::min(least, least_above(root + "/sys/fs/cgroup/memory", folder,
                                          "memory.limit_in_bytes"));
    }
  }
  return least;
}

}  // namespace lw
