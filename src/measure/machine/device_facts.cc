// DeviceFacts: read, hashed, written down and read back.
#include <sys/utsname.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "nlohmann/json.hpp"
#include "src/base/files.h"
#include "src/base/hash.h"
#include "src/measure/machine/hygiene.h"

namespace lw {
namespace {

// The value of the first line "name : value".
std::string field(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(name, 0) != 0) continue;
    const size_t at = line.find_first_not_of(" \t", line.find(':') + 1);
    return at == std::string::npos ? "" : line.substr(at);
  }
  return "";
}

// The number of processors in a list such as "0-3,8,10-11".
int64_t count_listed(const std::string& list) {
  int64_t count = 0;
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    const std::string part = list.substr(at, end - at);
    const size_t dash = part.find('-');
    count += dash == std::string::npos
                 ? 1
                 : std::atoll(part.c_str() + dash + 1) - std::atoll(part.c_str()) + 1;
    at = end + 1;
  }
  return count;
}

// "always [madvise] never" -> "madvise".
std::string chosen(const std::string& line) {
  const size_t begin = line.find('['), end = line.find(']');
  return begin == std::string::npos || end == std::string::npos
             ? ""
             : line.substr(begin + 1, end - begin - 1);
}

std::string read_turbo(const std::string& cpu) {
  const std::string none = first_line(cpu + "/intel_pstate/no_turbo");
  if (!none.empty()) return none == "0" ? "on" : "off";
  const std::string boost = first_line(cpu + "/cpufreq/boost");
  if (!boost.empty()) return boost == "0" ? "off" : "on";
  return "";
}

std::string read_hypervisor(const std::string& root) {
  const std::string type = first_line(root + "/sys/hypervisor/type");
  if (!type.empty()) return type;
  const std::string flags = " " + field(root + "/proc/cpuinfo", "flags") + " ";
  return flags.find(" hypervisor ") != std::string::npos ? "yes" : "";
}

nlohmann::json stable(const DeviceFacts& f) {
  return {{"architecture", f.architecture}, {"cpu", f.cpu},
          {"microcode", f.microcode},       {"kernel", f.kernel},
          {"hypervisor", f.hypervisor},     {"isolated_cpus", f.isolated_cpus},
          {"cpus_online", f.cpus_online},   {"processors", f.processors},
          {"numa_nodes", f.numa_nodes},     {"threads_per_core", f.threads_per_core},
          {"memory_mib", f.memory_mib}};
}

}  // namespace

DeviceFacts read_device_facts(const std::string& root) {
  const std::string cpu = root + "/sys/devices/system/cpu", info = root + "/proc/cpuinfo";
  DeviceFacts f;
  utsname name{};
  if (uname(&name) == 0) f.architecture = name.machine;
  f.kernel = first_line(root + "/proc/sys/kernel/osrelease");
  f.cpu = field(info, "model name");
  if (f.cpu.empty()) f.cpu = field(info, "CPU part");
  f.microcode = field(info, "microcode");
  f.hypervisor = read_hypervisor(root);
  f.isolated_cpus = first_line(cpu + "/isolated");
  f.cpus_online = first_line(cpu + "/online");
  f.processors = count_listed(f.cpus_online);
  f.threads_per_core = count_listed(first_line(cpu + "/cpu0/topology/thread_siblings_list"));
  f.numa_nodes = count_listed(first_line(root + "/sys/devices/system/node/online"));
  f.memory_mib = std::atoll(field(root + "/proc/meminfo", "MemTotal").c_str()) >> 10;
  f.governor = first_line(cpu + "/cpu0/cpufreq/scaling_governor");
  f.turbo = read_turbo(cpu);
  f.huge_pages = chosen(first_line(root + "/sys/kernel/mm/transparent_hugepage/enabled"));
  std::ifstream(root + "/proc/loadavg") >> f.load;
  return f;
}

std::string device_fingerprint(const DeviceFacts& facts) { return sha256(stable(facts).dump()); }

std::string to_json(const DeviceFacts& f) {
  const nlohmann::json document = {{"stable", stable(f)},
                                   {"volatile",
                                    {{"governor", f.governor},
                                     {"turbo", f.turbo},
                                     {"huge_pages", f.huge_pages},
                                     {"load", f.load}}}};
  // What a firmware calls itself may be anything but UTF-8.
  return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<DeviceFacts> parse_device_facts(std::string_view json) {
  const nlohmann::json document = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  const absl::Status wrong = absl::InvalidArgumentError("not the facts of a device");
  if (!document.is_object() || !document.contains("stable") || !document.contains("volatile")) {
    return wrong;
  }
  const nlohmann::json &s = document["stable"], &v = document["volatile"];
  bool ok = s.is_object() && v.is_object();
  const auto text = [&](const nlohmann::json& part, const char* name) {
    ok = ok && part.contains(name) && part[name].is_string();
    return ok ? part[name].get<std::string>() : "";
  };
  const auto number = [&](const char* name) {
    ok = ok && s.contains(name) && s[name].is_number_integer();
    return ok ? s[name].get<int64_t>() : 0;
  };
  DeviceFacts f;
  f.architecture = text(s, "architecture");
  f.cpu = text(s, "cpu");
  f.microcode = text(s, "microcode");
  f.kernel = text(s, "kernel");
  f.hypervisor = text(s, "hypervisor");
  f.isolated_cpus = text(s, "isolated_cpus");
  f.cpus_online = text(s, "cpus_online");
  f.processors = number("processors");
  f.threads_per_core = number("threads_per_core");
  f.numa_nodes = number("numa_nodes");
  f.memory_mib = number("memory_mib");
  f.governor = text(v, "governor");
  f.turbo = text(v, "turbo");
  f.huge_pages = text(v, "huge_pages");
  ok = ok && v.contains("load") && v["load"].is_number();
  if (!ok) return wrong;
  f.load = v["load"].get<double>();
  return f;
}

}  // namespace lw
