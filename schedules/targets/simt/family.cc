// Machines of many threads: GPUs, and whatever else runs OpenCL's kernels.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "schedules/targets/family.h"
#include "schedules/targets/simt/simt_target.h"

namespace lw {
namespace {

std::string omission(const Target& target) {
  if (target.caches.empty()) return "caches must not be empty";
  if (target.atoms.empty()) return "atoms must not be empty";
  return "";
}

// What the analytic model divides by and indexes with.
std::string defect(const Target& target) {
  const SimtTarget& t = simt(target);
  const auto is = [](double value, double least, double most) {
    return value >= least && value <= most;  // no NaN
  };
  const auto count = [&](int64_t value, double least, double most) {
    return is(static_cast<double>(value), least, most);
  };
  const bool power = t.vector_bytes > 0 && (t.vector_bytes & (t.vector_bytes - 1)) == 0;
  if (!power || !is(t.vector_bytes, 4, 128)) return "vector_bytes must be a power of 2, 4 to 128";
  if (!is(t.units, 1, 1e6)) return "units must be 1 to 1e6";
  if (!is(t.simd, 1, 1024)) return "simd must be 1 to 1024";
  if (!is(t.sub_group, 1, 1024)) return "sub_group must be 1 to 1024";
  if (!count(t.group_items, 1, 65536)) return "group_items must be 1 to 65536";
  if (!count(t.unit_items, 1, 1e6)) return "unit_items must be 1 to 1e6";
  if (!count(t.local_bytes, 0, 1e9)) return "local_bytes must be 0 to 1e9";
  if (!count(t.register_bytes, 4.0 * t.vector_bytes, 1e6)) {
    return "register_bytes must be 4 * vector_bytes to 1e6";
  }
  if (!count(t.access_bytes, 1, 1e6)) return "access_bytes must be 1 to 1e6";
  if (!count(t.buffer_bytes, 1, 1e18)) return "buffer_bytes must be 1 to 1e18";
  if (!is(t.loads_per_cycle, 0.01, 1e3)) return "loads_per_cycle must be 0.01 to 1000";
  if (!is(t.group_us, 0, 1e9)) return "group_us must be 0 to 1e9";
  if (!is(t.barrier_us, 0, 1e9)) return "barrier_us must be 0 to 1e9";
  if (!is(t.launch_us, 0, 1e9)) return "launch_us must be 0 to 1e9";
  if (!count(t.unit_local_bytes, 0, 1e9)) return "unit_local_bytes must be 0 to 1e9";
  if (!count(t.unit_register_bytes, 0, 1e9)) return "unit_register_bytes must be 0 to 1e9";
  if (!is(t.issue_per_cycle, 0.01, 1e3)) return "issue_per_cycle must be 0.01 to 1000";
  if (!is(t.cluster_groups, 1, 16)) return "cluster_groups must be 1 to 16";
  if (!is(t.cluster_barrier_us, 0, 1e6)) return "cluster_barrier_us must be 0 to 1e6";
  if (!is(t.cluster_units, 0, t.units)) return "cluster_units must be 0 to the units";
  for (const Atom& atom : target.atoms) {
    if (!is(atom.m, 0, 4096) || !is(atom.n, 0, 4096) || !is(atom.k, 0, 4096)) {
      return "atoms: m, n and k must be 0 to 4096";
    }
  }
  if (target.caches.size() > 4) return "caches: at most 4 levels";
  if (target.cores != 1) return "cores must be 1: compute units are `units`";
  return "";
}

double distance(const Target& one, const Target& other) {
  const SimtTarget &a = simt(one), &b = simt(other);
  // What one cannot run at all.
  if (b.group_items < a.group_items || b.local_bytes < a.local_bytes ||
      b.buffer_bytes < a.buffer_bytes || (a.half && !b.half) || (a.fp64 && !b.fp64) ||
      (a.sub_group > 1 && a.sub_group != b.sub_group)) {
    return HUGE_VAL;
  }
  double sum = log_ratio(a.vector_bytes, b.vector_bytes) + log_ratio(a.units, b.units) +
               log_ratio(a.simd, b.simd) +
               0.5 * log_ratio(static_cast<double>(a.register_bytes),
                               static_cast<double>(b.register_bytes)) +
               0.5 * log_ratio(static_cast<double>(a.local_bytes),
                               static_cast<double>(b.local_bytes)) +
               0.25 * log_ratio(one.ghz, other.ghz);
  if (a.local_real != b.local_real) sum += 1;
  if (a.device != b.device) sum += 0.1;
  return sum;
}

TargetSummary summary(const Target& target) {
  const SimtTarget& t = simt(target);
  TargetSummary summary;
  summary.figures = {{"units", absl::StrCat(t.units)},
                     {"group", absl::StrCat(t.group_items)},
                     {"vector", absl::StrCat(8 * t.vector_bytes, " bit")}};
  summary.memories.push_back({"local", t.local_bytes});
  for (const CacheLevel& level : target.caches) {
    summary.memories.push_back({level.name, level.bytes});
  }
  return summary;
}

std::vector<std::pair<const char*, std::string>> other_names(const Target& target) {
  return {{"device", simt(target).device}};
}

int units(const Target& target) { return std::max(2, simt(target).units); }

// Where a machine says how many registers a unit has, an item's are that machine's own, and what it
// needs besides its tile (addresses, counters, what is loaded next) is among them: ptxas, which loads
// all that a tile reads before it computes, spills tiles that leave it less.
constexpr int64_t kOtherRegisterBytes = 240;

RegisterFile registers(const Target& target) {
  const SimtTarget& t = simt(target);
  const bool exact = t.unit_register_bytes > 0 && t.register_bytes > 2 * kOtherRegisterBytes;
  const int64_t tile = t.register_bytes - (exact ? kOtherRegisterBytes : 0);
  return {.vector_bytes = t.vector_bytes,
          .vectors = static_cast<int>(tile / t.vector_bytes),
          .fma = true,
          .masks = false,
          .most_lanes = 16,
          .loads_per_cycle = t.loads_per_cycle,
          .loads_first = exact,
          .processor = is_processor(t),
          .own_copies = kPrivateRegisters * t.register_bytes,
          .copies = t.local_bytes};
}

bool computes_in(const Target& target, Type type) {
  return type != Type::kF64 || simt(target).fp64;
}

constexpr const char* kArchitectures[] = {"opencl", "nvidia"};

}  // namespace

constinit const TargetFamily kSimtFamily = {
    .name = "simt",
    .architectures = kArchitectures,
    .mark = "group_items",
    .has_schedules = true,
    .has_threads = false,
    .copy = copy_part<SimtTarget>,
    .fields = fields_of_part<SimtTarget>,
    .omission = omission,
    .defect = defect,
    .distance = distance,
    .summary = summary,
    .known_as = other_names,
    .units = units,
    .registers = registers,
    .computes_in = computes_in,
    .host = nullptr,
    .configurations = nullptr,
};

const TargetFamily& simt_family() { return kSimtFamily; }

void set_simt(Target* target, SimtTarget part) {
  target->part = TargetPart(kSimtFamily, std::make_shared<const SimtTarget>(std::move(part)));
}

}  // namespace lw
