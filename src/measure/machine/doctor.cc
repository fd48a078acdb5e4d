// The doctor: measures what the other commands judge by, and says in words what makes this machine
// a bad place to measure on.
#include "src/base/files.h"
#include "src/measure/machine/doctor.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/measure/run/timing.h"

namespace lw {
namespace {

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

// Time stolen by the hypervisor and all time so far, in ticks over all processors.
struct Ticks {
  double steal = 0, total = 0;
};
Ticks ticks() {
  std::istringstream line(first_line("/proc/stat"));
  std::string name;
  line >> name;
  Ticks t;
  double value;
  for (int i = 0; i < 8 && line >> value; ++i) {
    t.total += value;
    if (i == 7) t.steal = value;
  }
  return t;
}

// Seconds for a chain of `count` dependent additions. The empty statements keep it a chain, and of
// two registers: additions of constants are folded by some processors before they execute.
double chain_seconds(int64_t count) {
  uint64_t x = 1, y = 3;
  const double begin = now();
  for (int64_t i = 0; i < count; i += 16) {
    for (int k = 0; k < 16; ++k) {
      asm volatile("" : "+r"(x), "+r"(y));
      x += y;
    }
    asm volatile("" : "+r"(x));
  }
  return now() - begin;
}

// Coefficient of variation of a loop of about 0.2 ms.
double measure_noise(double ghz, int samples) {
  const int64_t count = static_cast<int64_t>(ghz * 2e5);
  std::vector<double> seconds;
  for (int i = 0; i < samples; ++i) seconds.push_back(chain_seconds(count));
  const double mean = std::accumulate(seconds.begin(), seconds.end(), 0.0) / samples;
  double variance = 0;
  for (double s : seconds) variance += (s - mean) * (s - mean) / samples;
  return std::sqrt(variance) / mean;
}

absl::Status measure_peaks(const Target& target, bool quick, DoctorReport* report) {
  for (Type type : {Type::kF32, Type::kF64, Type::kI32}) {
    for (int threads : {1, target.cores}) {
      if (threads > 1 && quick && type != Type::kF32) continue;
      if (threads == 1 && !report->peaks.empty() && report->peaks.back().type == type) continue;
      ASSIGN_OR_RETURN(const double gflops,
                       measure_peak_gflops(target, type, threads, quick ? 0.05 : 0.2));
      report->peaks.push_back({type, threads, gflops});
    }
  }
  return absl::OkStatus();
}

// A footprint that the level holds and the nearer one does not.
int64_t footprint_of(const Target& target, size_t level) {
  const CacheLevel& cache = target.caches[level];
  const int64_t nearer = level == 0 ? 0 : target.caches[level - 1].bytes;
  if (cache.bytes == 0) return std::clamp<int64_t>(4 * nearer, int64_t{64} << 20, int64_t{1} << 30);
  return std::max(std::min<int64_t>(cache.bytes / 2, int64_t{16} << 20),
                  std::min(2 * nearer, cache.bytes / 2));
}

absl::Status measure_levels(const Target& target, bool quick, DoctorReport* report) {
  const double budget = quick ? 0.03 : 0.15;
  for (size_t i = 0; i < target.caches.size(); ++i) {
    if (quick && i > 0 && i + 1 < target.caches.size()) continue;
    DoctorReport::Level level;
    level.name = target.caches[i].name;
    level.footprint_bytes = footprint_of(target, i);
    ASSIGN_OR_RETURN(const Bandwidth read,
                     measure_bandwidth(target, level.footprint_bytes, 1, 1, budget));
    ASSIGN_OR_RETURN(const Bandwidth write,
                     measure_bandwidth(target, level.footprint_bytes, 0, 1, budget));
    ASSIGN_OR_RETURN(const Bandwidth copy,
                     measure_bandwidth(target, level.footprint_bytes, 0.5, 1, budget));
    level.read = read.gbytes_per_s;
    level.write = write.gbytes_per_s;
    level.copy = copy.gbytes_per_s;
    if (copy.streaming) level.stream_copy = copy.gbytes_per_s;
    report->levels.push_back(level);
  }
  return absl::OkStatus();
}

// What the target description promises for f32, in GFLOP/s of one core at the measured clock.
double promised_gflops(const Target& target, double ghz) {
  double best = 0;
  for (const Atom& atom : target.atoms) {
    if (atom.acc == Type::kF32 && atom.a == Type::kF32) {
      best = std::max(best, 2.0 * atom.lanes * atom.group * atom.per_cycle * ghz);
    }
  }
  return best;
}

void diagnose(const Target& target, DoctorReport* report) {
  std::vector<std::string>& problems = report->problems;
  if (report->isolation.level() < IsolationLevel::kFilter) {
    problems.push_back(absl::StrCat("candidates could do harm here; missing: ",
                                    absl::StrJoin(report->isolation.missing(), "; ")));
  }
  const std::string missing = missing_feature(target, find_target("host").value_or(target));
  if (!missing.empty())
    problems.push_back(absl::StrCat("this processor lacks ", missing, " of ", target.name));
  if (report->load > 0.5) {
    problems.push_back(absl::StrFormat(
        "other processes are running: %.1f wanted a processor during the last minute (%d here); "
        "stop them before tuning",
        report->load, report->cores));
  }
  if (report->steal > 0.01) {
    problems.push_back(absl::StrFormat("the hypervisor took %.1f %% of the time for other machines",
                                       100 * report->steal));
  }
  if (report->noise > 0.03) {
    problems.push_back(absl::StrFormat(
        "a fixed loop of 0.2 ms varies by %.1f %%: differences below that cannot be told apart",
        100 * report->noise));
  }
  if (report->timer_resolution_s > 1e-6) {
    problems.push_back(
        absl::StrFormat("the clock's step is %.1f us: short kernels need long samples",
                        1e6 * report->timer_resolution_s));
  }
  if (!report->governor.empty() && report->governor != "performance") {
    problems.push_back(absl::StrCat("the frequency governor is ", report->governor,
                                    ", not performance: clocks follow the load"));
  }
  const std::string siblings =
      first_line("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list");
  if (siblings.find_first_of(",-") != std::string::npos) {
    problems.push_back(absl::StrCat("processors ", siblings,
                                    " share one core: leave siblings idle while measuring"));
  }
  if (report->cores == 1) {
    problems.push_back("one processor only: building and measuring must take turns");
  }
  const double promised = promised_gflops(target, report->clock_ghz);
  if (promised > 0 && !report->peaks.empty() && report->peaks[0].gflops < 0.85 * promised) {
    problems.push_back(absl::StrFormat(
        "f32 peaks at %.0f GFLOP/s, %.0f %% of the %.0f that %s promises at %.2f GHz: throttled, "
        "shared, or described wrongly",
        report->peaks[0].gflops, 100 * report->peaks[0].gflops / promised, promised, target.name,
        report->clock_ghz));
  }
}

}  // namespace

double measure_clock_ghz(double budget_s) {
  const double end = now() + budget_s;
  constexpr int64_t kAdds = 1 << 18;
  double best = 0;
  do {
    best = std::max(best, static_cast<double>(kAdds) * 1e-9 / chain_seconds(kAdds));
  } while (now() < end);
  return best;
}

absl::StatusOr<DoctorReport> doctor(const Target& target, bool quick) {
  DoctorReport report;
  const Ticks before = ticks();
  report.cpu = cpu_model();
  report.target = target.name;
  report.cores = target.cores;
  report.timer_resolution_s = timer_resolution();
  std::istringstream(first_line("/proc/loadavg")) >> report.load;
  report.governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  report.clock_ghz = measure_clock_ghz(quick ? 0.02 : 0.1);
  report.noise = measure_noise(report.clock_ghz, quick ? 200 : 1000);
  RETURN_IF_ERROR(measure_peaks(target, quick, &report));
  RETURN_IF_ERROR(measure_levels(target, quick, &report));
  const Ticks after = ticks();
  if (after.total > before.total) {
    report.steal = (after.steal - before.steal) / (after.total - before.total);
  }
  report.facts = read_device_facts();
  report.isolation = detect_isolation();
  diagnose(target, &report);
  return report;
}

std::string to_json(const DoctorReport& report) {
  nlohmann::json peaks = nlohmann::json::array(), levels = nlohmann::json::array();
  for (const DoctorReport::Peak& p : report.peaks) {
    peaks.push_back(
        {{"type", std::string(type_name(p.type))}, {"threads", p.threads}, {"gflops", p.gflops}});
  }
  for (const DoctorReport::Level& l : report.levels) {
    levels.push_back({{"level", l.name},
                      {"footprint_bytes", l.footprint_bytes},
                      {"threads", l.threads},
                      {"read_gb_s", l.read},
                      {"write_gb_s", l.write},
                      {"copy_gb_s", l.copy},
                      {"copy_streaming", l.stream_copy > 0}});
  }
  const nlohmann::json document = {{"cpu", report.cpu},
                                   {"target", report.target},
                                   {"cores", report.cores},
                                   {"clock_ghz", report.clock_ghz},
                                   {"peaks", peaks},
                                   {"bandwidth", levels},
                                   {"timer_resolution_ns", report.timer_resolution_s * 1e9},
                                   {"noise", report.noise},
                                   {"steal", report.steal},
                                   {"load", report.load},
                                   {"governor", report.governor},
                                   {"device", device_fingerprint(report.facts)},
                                   {"facts", nlohmann::json::parse(to_json(report.facts))},
                                   {"isolation", nlohmann::json::parse(report.isolation.json())},
                                   {"problems", report.problems}};
  return document.dump(2);
}

std::string to_text(const DoctorReport& report) {
  std::string text = absl::StrFormat("%s\n  target %s, %d processors, clock %.2f GHz\n", report.cpu,
                                     report.target, report.cores, report.clock_ghz);
  for (const DoctorReport::Peak& p : report.peaks) {
    absl::StrAppendFormat(&text, "  peak %-4s %2d thread%s %8.1f GFLOP/s\n",
                          std::string(type_name(p.type)), p.threads, p.threads == 1 ? " " : "s",
                          p.gflops);
  }
  for (const DoctorReport::Level& l : report.levels) {
    absl::StrAppendFormat(&text, "  %-5s %9d KiB  read %6.1f  write %6.1f  copy %6.1f GB/s%s\n",
                          l.name, l.footprint_bytes >> 10, l.read, l.write, l.copy,
                          l.stream_copy > 0 ? " (streaming stores)" : "");
  }
  absl::StrAppendFormat(&text, "  timer %.0f ns, noise %.2f %%, stolen %.2f %%, load %.2f%s\n",
                        report.timer_resolution_s * 1e9, 100 * report.noise, 100 * report.steal,
                        report.load,
                        report.governor.empty() ? "" : ", governor " + report.governor);
  absl::StrAppendFormat(&text, "  device %s, isolation of candidates: %s\n",
                        device_fingerprint(report.facts).substr(0, 16),
                        std::string(isolation_name(report.isolation.level())));
  for (const std::string& problem : report.problems)
    absl::StrAppend(&text, "  problem: ", problem, "\n");
  if (report.problems.empty()) absl::StrAppend(&text, "  nothing wrong\n");
  return text;
}

}  // namespace lw
