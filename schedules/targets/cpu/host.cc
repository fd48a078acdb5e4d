// Detects the host. Features come from cpuid (and xgetbv: the operating system must save the
// registers too), the CPU's name from its family and model, caches from sysfs, cores from the
// affinity mask. What cannot be detected (bandwidths, latencies, throughputs) is that of the
// built-in target it resembles, corrected by a small table of CPUs.
//
// Everything is deterministic: nothing is timed, and nothing but `cores` depends on the processors
// that this process may use, since a Target's identity is part of the keys of stored results. So
// the caches are the first processor's, whoever asks. On virtual machines a cache shared by cores
// that the guest cannot see is reported whole, so one core's share of the last level is also cut to
// four times its second level there.
#include "schedules/targets/cpu/host.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "schedules/targets/cpu/cpu_target.h"
#include "src/runtime/cpuid.h"
#include "src/runtime/processor.h"

namespace lw {
namespace {

#if defined(__x86_64__)

// What the table below says of a CPU. `name` is one that LLVM 19 schedules for.
struct Cpu {
  const char* name;
  double fma_512_per_cycle;
  double issue_per_cycle;
  double fma_latency;
  double bf16_dot_share = 1;               // of the rate of multiply-adds
  bool small_complexes = false;            // a few cores share a last level, which is near them
  bool halves = false;                     // vectors of 512 bits are two of 256 to the memory ports
};

// Measured on one of them; since they multiply bf16 in tiles they do it slowly in vectors.
constexpr double kGoldenCoveDots = 0.25;

Cpu intel_cpu(int model, int stepping) {
  switch (model) {
    case 0x3c: case 0x3f: case 0x45: case 0x46: return {"haswell", 0, 4, 5};
    case 0x3d: case 0x47: case 0x4f: case 0x56: return {"broadwell", 0, 4, 5};
    case 0x4e: case 0x5e: case 0x8e: case 0x9e: case 0xa5: case 0xa6: return {"skylake", 0, 4, 4};
    case 0x55:
      return {stepping >= 10  ? "cooperlake"
              : stepping >= 5 ? "cascadelake"
                              : "skylake-avx512",
              2, 4, 4};
    case 0x7d: case 0x7e: return {"icelake-client", 1, 5, 4};
    case 0x8c: case 0x8d: return {"tigerlake", 1, 5, 4};
    case 0xa7: return {"rocketlake", 1, 5, 4};
    case 0x6a: case 0x6c: return {"icelake-server", 2, 5, 4};
    case 0x8f: return {"sapphirerapids", 2, 6, 4, kGoldenCoveDots};
    case 0xcf: return {"emeraldrapids", 2, 6, 4, kGoldenCoveDots};
    case 0xad: case 0xae: return {"graniterapids", 2, 6, 4, kGoldenCoveDots};
    case 0x97: case 0x9a: case 0xbe: return {"alderlake", 0, 6, 4};
    case 0xb7: case 0xba: case 0xbf: return {"raptorlake", 0, 6, 4};
    default: return {nullptr, 2, 6, 4, kGoldenCoveDots};
  }
}

Cpu amd_cpu(int family, int model) {
  switch (family) {
    case 0x17: return {model >= 0x30 ? "znver2" : "znver1", 0, 5, 5};
    case 0x19: {
      const bool fourth = (model >= 0x10 && model <= 0x1f) || (model >= 0x60 && model <= 0xaf);
      return {fourth ? "znver4" : "znver3", 1, 6, 4, 1, true, fourth};
    }
    case 0x1a: return {"znver5", 2, 8, 4, 1, true};
    default: return {nullptr, 1, 6, 4, 1, true};
  }
}

// A CPU that is newer than the table is scheduled for like the newest of its kind.
Cpu host_cpu(const std::vector<std::string>& features) {
  const Cpuid zero(0), one(1);
  int family = one.eax >> 8 & 15, model = one.eax >> 4 & 15;
  if (family == 6 || family == 15) model |= (one.eax >> 16 & 15) << 4;
  if (family == 15) family += one.eax >> 20 & 255;
  const bool amd = zero.ebx == 0x68747541u || zero.ebx == 0x6f677948u;  // "Auth", "Hygo"
  Cpu cpu = {nullptr, 2, 6, 4};
  if (amd) cpu = amd_cpu(family, model);
  else if (family == 6) cpu = intel_cpu(model, one.eax & 15);
  if (cpu.name == nullptr) {
    const auto has = [&](const char* f) {
      return std::find(features.begin(), features.end(), f) != features.end();
    };
    cpu.name = has("avx512vl") ? (amd ? "znver5" : "sapphirerapids")
               : has("avx2")   ? (amd ? "znver3" : "alderlake")
                               : "x86-64";
  }
  return cpu;
}

// ------------------------------------------------------------------------------ sysfs

std::string read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The members of "0-3,8".
int count_list(const std::string& list) {
  int count = 0;
  std::stringstream stream(list);
  for (std::string range; std::getline(stream, range, ',');) {
    int first = 0, last = 0;
    const int read = std::sscanf(range.c_str(), "%d-%d", &first, &last);
    if (read >= 1) count += read == 2 ? std::max(1, last - first + 1) : 1;
  }
  return std::max(1, count);
}

int64_t cache_bytes(const std::string& size) {
  long long value = 0;
  char unit = 'K';
  if (std::sscanf(size.c_str(), "%lld%c", &value, &unit) < 1) return 0;
  return value << (unit == 'M' ? 20 : unit == 'G' ? 30 : unit == 'K' ? 10 : 0);
}

// Of the first processor whose caches are described: one that is off has none.
std::string described_cpu() {
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    const std::string base = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/";
    if (!read_line(base + "cache/index0/level").empty()) return base;
  }
  return "/sys/devices/system/cpu/cpu0/";
}

// Sizes of the levels that sysfs describes; the built-in target's remain for the others.
void detect_caches(bool virtual_machine, const Cpu& cpu, std::vector<CacheLevel>* caches) {
  const std::string base = described_cpu();
  const int threads = count_list(read_line(base + "topology/thread_siblings_list"));
  int64_t second = 0;
  for (int i = 0; i < 8; ++i) {
    const std::string index = base + "cache/index" + std::to_string(i) + "/";
    const std::string type = read_line(index + "type");
    const std::string name = "L" + read_line(index + "level");
    if (type != "Data" && type != "Unified") continue;
    for (CacheLevel& cache : *caches) {
      const int64_t bytes = cache_bytes(read_line(index + "size"));
      if (cache.name != name || bytes <= 0) continue;
      const int cores = std::max(1, count_list(read_line(index + "shared_cpu_list")) / threads);
      cache.bytes = bytes / cores;
      if (name == "L2") second = cache.bytes;
      if (name == "L3" && virtual_machine && second > 0)
        cache.bytes = std::min(cache.bytes, (cpu.small_complexes ? 16 : 4) * second);
    }
  }
}

double detect_ghz(double otherwise) {
  const std::string khz = read_line("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
  if (!khz.empty()) return std::round(std::atof(khz.c_str()) / 1e5) / 10;
  const Cpuid clocks(0x16);  // MHz: base in eax, the highest in ebx
  if (clocks.ebx != 0) return std::round((clocks.ebx & 0xffff) / 100.0) / 10;
  return otherwise;
}

// ------------------------------------------------------------------------------ the whole

void adjust_to(const Cpu& found, Target* target) {
  CpuTarget part = cpu(*target);
  part.cpu = found.name;
  part.page_bytes = sysconf(_SC_PAGESIZE);
  if (part.vector_bytes > 16) part.issue_per_cycle = found.issue_per_cycle;
  const bool wide = part.vector_bytes == 64;
  const double rate = wide ? std::max(1.0, found.fma_512_per_cycle) : 2;
  if (wide && found.halves) part.loads_per_cycle = 1, part.stores_per_cycle = 0.5;
  if (found.small_complexes) {
    // Of a Zen 4, of copies as of reads; streaming stores beside reads.
    for (CacheLevel& cache : target->caches) {
      if (cache.name == "L2") cache.read_bytes_per_cycle = cache.write_bytes_per_cycle = 29;
      if (cache.name == "L3") cache.read_bytes_per_cycle = cache.write_bytes_per_cycle = 26;
      if (cache.name == "DRAM") cache.write_bytes_per_cycle = 12;
    }
  }
  for (Atom& atom : target->atoms) {
    if (!part.fma) break;
    atom.per_cycle = atom.a == Type::kBF16 ? rate * found.bf16_dot_share : rate;
    if (atom.group == 1) atom.latency = found.fma_latency;
  }
  set_cpu(target, std::move(part));
}

#endif  // __x86_64__

}  // namespace

absl::StatusOr<Target> host_target() {
#if defined(__x86_64__)
  const std::vector<std::string> features = processor_features();
  Target machine;
  machine.architecture = "x86_64";
  machine.features = features;
  Target target;
  // Of those that this machine runs the widest, and of these the one that asks for most.
  const auto richness = [](const Target& t) {
    return std::make_pair(cpu(t).vector_bytes, t.features.size());
  };
  for (const Target& candidate : builtin_targets()) {
    if (!missing_feature(candidate, machine).empty()) continue;
    if (target.features.empty() || richness(candidate) > richness(target)) target = candidate;
  }
  target.name = "host";
  target.features = features;
  const Cpu cpu = host_cpu(features);
  adjust_to(cpu, &target);

  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
    target.cores = std::max(1, CPU_COUNT(&allowed));
  }
  target.ghz = detect_ghz(target.ghz);
  detect_caches(bit(Cpuid(1).ecx, 31), cpu, &target.caches);
  return target;
#else
  return absl::UnimplementedError("no target describes this machine; name one instead of 'host'");
#endif
}

}  // namespace lw
