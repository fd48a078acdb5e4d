// CPUs: cores with caches and vector registers, whose code LLVM makes.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "schedules/targets/cpu/cpu_target.h"
#include "schedules/targets/cpu/host.h"
#include "schedules/targets/family.h"

namespace lw {
namespace {

std::string omission(const Target& target) {
  if (target.caches.empty()) return "caches must not be empty";
  if (target.atoms.empty()) return "atoms must not be empty";
  return "";
}

// What the analytic model divides by and indexes with.
std::string defect(const Target& target) {
  const CpuTarget& t = cpu(target);
  const auto is = [](double value, double least, double most) {
    return value >= least && value <= most;  // no NaN
  };
  const bool power = t.vector_bytes > 0 && (t.vector_bytes & (t.vector_bytes - 1)) == 0;
  if (!power || !is(t.vector_bytes, 4, 4096)) return "vector_bytes must be a power of 2, 4 to 4096";
  if (!is(t.vector_registers, 1, 4096)) return "vector_registers must be 1 to 4096";
  if (!is(t.loads_per_cycle, 0.01, 1e3)) return "loads_per_cycle must be 0.01 to 1000";
  if (!is(t.stores_per_cycle, 0.01, 1e3)) return "stores_per_cycle must be 0.01 to 1000";
  if (!is(t.issue_per_cycle, 0.01, 1e3)) return "issue_per_cycle must be 0.01 to 1000";
  if (!is(static_cast<double>(t.page_bytes), 64, 1e12)) return "page_bytes must be 64 to 1e12";
  if (!is(t.tlb_entries, 1, 1e9)) return "tlb_entries must be 1 to 1e9";
  if (!is(t.parallel_overhead_us, 0, 1e9)) return "parallel_overhead_us must be 0 to 1e9";
  if (target.caches.size() > 4) return "caches: at most 4 levels";
  return "";
}

// The bytes one core may use of the cache of that name.
double cache_bytes(const Target& target, std::string_view name) {
  for (const CacheLevel& level : target.caches) {
    if (level.name == name) return static_cast<double>(level.bytes);
  }
  return 0;
}

double distance(const Target& one, const Target& other) {
  const CpuTarget &a = cpu(one), &b = cpu(other);
  double sum =
      log_ratio(a.vector_bytes, b.vector_bytes) + log_ratio(a.vector_registers, b.vector_registers);
  for (const char* level : {"L1", "L2", "L3"}) {
    sum += 0.5 * log_ratio(cache_bytes(one, level), cache_bytes(other, level));
  }
  sum += 0.25 * log_ratio(one.ghz, other.ghz);  // of the clock little depends
  if (a.cpu != b.cpu) sum += 0.1;
  if (a.fma != b.fma) sum += 0.5;
  if (a.masks != b.masks) sum += 0.25;
  return sum;
}

TargetSummary summary(const Target& target) {
  TargetSummary summary;
  summary.figures = {{"vector", absl::StrCat(8 * cpu(target).vector_bytes, " bit")},
                     {"registers", absl::StrCat(cpu(target).vector_registers)}};
  for (const CacheLevel& level : target.caches) {
    summary.memories.push_back({level.name, level.bytes});
  }
  return summary;
}

std::vector<std::pair<const char*, std::string>> other_names(const Target& target) {
  return {{"triple", cpu(target).triple}};
}

RegisterFile registers(const Target& target) {
  const CpuTarget& t = cpu(target);
  return {.vector_bytes = t.vector_bytes,
          .vectors = t.vector_registers,
          .fma = t.fma,
          .masks = t.masks,
          .loads_per_cycle = t.loads_per_cycle,
          .processor = true};
}

constexpr const char* kArchitectures[] = {"aarch64", "x86_64"};

}  // namespace

constinit const TargetFamily kCpuFamily = {
    .name = "cpu",
    .architectures = kArchitectures,
    .mark = "triple",
    .has_schedules = true,
    .has_threads = true,
    .copy = copy_part<CpuTarget>,
    .fields = fields_of_part<CpuTarget>,
    .omission = omission,
    .defect = defect,
    .distance = distance,
    .summary = summary,
    .known_as = other_names,
    .units = nullptr,
    .registers = registers,
    .computes_in = nullptr,
    .host = host_target,
    .configurations = nullptr,
};

const TargetFamily& cpu_family() { return kCpuFamily; }

void set_cpu(Target* target, CpuTarget part) {
  target->part = TargetPart(kCpuFamily, std::make_shared<const CpuTarget>(std::move(part)));
}

}  // namespace lw
