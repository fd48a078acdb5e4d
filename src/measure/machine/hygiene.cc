// Problem: a time says nothing without what else went on, and looking must not disturb what is
// timed. So facts that stay are read once a session; what a measurement itself suffered (context
// switches, faults) is counted by its own process at both ends; the processors' other users and the
// machine's pace are looked at between measurements, when due. Measured: 5 us for begin, end and
// json() together where the clock's rate is not readable.
#include "src/measure/machine/hygiene.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <sstream>
#include <thread>

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "src/base/clock.h"
#include "src/base/message.h"
#include "src/base/parallel_pool.h"
#include "src/measure/run/timing.h"

namespace lw {
namespace {

constexpr double kLookEvery = 1;    // seconds; the system counts in ticks of 10 ms
constexpr double kOutlier = 5;      // times the median absolute deviation
constexpr double kCoolDowns[] = {0.05, 0.5};

double median(std::vector<double> values) {
  const size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(middle), values.end());
  return values[middle];
}

int count_outliers(const std::vector<double>& samples) {
  if (samples.size() < 3) return 0;
  const double centre = median(samples);
  std::vector<double> distances;
  for (double s : samples) distances.push_back(std::abs(s - centre));
  const double limit = kOutlier * median(distances);
  return static_cast<int>(std::count_if(distances.begin(), distances.end(),
                                        [&](double d) { return limit > 0 && d > limit; }));
}

// The fixed kernel: multiply-adds over an array that the first cache holds; its pace follows clock
// and neighbours as kernels' does.
double reference_once() {
  static float x[2048];
  asm volatile("" : : "r"(x) : "memory");
  float sum[16] = {};
  const double begin = now();
  for (int repeat = 0; repeat < 100; ++repeat) {
    for (int i = 0; i < 2048; i += 16) {
      for (int k = 0; k < 16; ++k) sum[k] = sum[k] * 0.999f + x[i + k];
    }
  }
  asm volatile("" : : "r"(sum) : "memory");
  const double end = now();
  return (end - begin) * 1e6;
}

// User and system time of a process in seconds; 0: there is none.
double process_seconds(pid_t pid) {
  if (pid <= 0) return 0;
  std::ifstream file(concat("/proc/", pid, "/stat"));
  std::string text;
  std::getline(file, text);
  const size_t end = text.rfind(')');  // behind the name, which may hold anything
  if (end == std::string::npos) return 0;
  std::istringstream rest(text.substr(end + 1));
  std::string word;
  for (int i = 0; i < 11; ++i) rest >> word;
  double user = 0, system = 0;
  rest >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// Busy and stolen seconds of these processors together.
void processor_seconds(const std::vector<int>& cpus, double* busy, double* steal) {
  std::ifstream file("/proc/stat");
  const double tick = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  *busy = *steal = 0;
  for (std::string line; std::getline(file, line) && line.rfind("cpu", 0) == 0;) {
    if (line.rfind("cpu ", 0) == 0) continue;
    const int cpu = std::atoi(line.c_str() + 3);
    if (std::find(cpus.begin(), cpus.end(), cpu) == cpus.end()) continue;
    std::istringstream words(line);
    std::string name;
    double value[8] = {};  // user nice system idle iowait irq softirq steal
    words >> name;
    for (double& v : value) words >> v;
    *busy += (value[0] + value[1] + value[2] + value[5] + value[6]) * tick;
    *steal += value[7] * tick;
  }
}

std::vector<std::string> what_is_not_applied(const DeviceFacts& facts,
                                             const std::vector<int>& cpus, bool pinned) {
  std::vector<std::string> flags;
  const auto add = [&](bool bad, const std::string& text) {
    if (bad) flags.push_back(text);
  };
  add(!pinned, "affinity: refused");
  add(facts.governor.empty(), "governor: not visible");
  add(!facts.governor.empty() && facts.governor != "performance", "governor: " + facts.governor);
  add(facts.turbo.empty(), "turbo: not visible");
  add(facts.turbo == "on", "turbo: on");
  add(facts.threads_per_core > 1, "smt: siblings not idled");
  add(facts.isolated_cpus.empty(), "isolcpus: none");
  add(!facts.hypervisor.empty(), "vm: " + facts.hypervisor);
  add(static_cast<int64_t>(cpus.size()) >= facts.processors, "processors: none left for others");
  flags.push_back("mlockall, SCHED_FIFO, IRQ affinity: not applied");
  return flags;
}

}  // namespace

TimedUsage usage_so_far() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {usage.ru_nvcsw, usage.ru_nivcsw, usage.ru_majflt};
}

TimedUsage operator-(const TimedUsage& a, const TimedUsage& b) {
  return {a.voluntary - b.voluntary, a.involuntary - b.involuntary,
          a.major_faults - b.major_faults};
}

Hygiene::Hygiene(const HygieneOptions& options, std::vector<int> cpus,
                 std::vector<std::string> flags)
    : options_(options), cpus_(std::move(cpus)) {
  const std::vector<int> mine = allowed_cpus();
  const bool pinned = pin_to(cpus_);
  pin_to(mine);
  const DeviceFacts facts = read_device_facts();
  std::vector<std::string> all = what_is_not_applied(facts, cpus_, pinned);
  all.insert(all.end(), flags.begin(), flags.end());
  loadavg_ = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
  frequency_ =
      open(concat("/sys/devices/system/cpu/cpu", cpus_[0], "/cpufreq/scaling_cur_freq").c_str(),
           O_RDONLY | O_CLOEXEC);
  if (frequency_ < 0) all.push_back("frequency: not readable");
  const nlohmann::json host = {{"device", device_fingerprint(facts)},
                               {"cpu", facts.cpu},
                               {"microcode", facts.microcode},
                               {"kernel", facts.kernel},
                               {"vm", facts.hypervisor},
                               {"smt", facts.threads_per_core},
                               {"isolcpus", facts.isolated_cpus},
                               {"governor", facts.governor},
                               {"turbo", facts.turbo},
                               {"thp", facts.huge_pages},
                               {"affinity", pinned}};
  const auto dump = [](const nlohmann::json& json) {
    return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  constant_ = concat("\"host\":", dump(host), ",\"hygiene_flags\":", dump(all));
}

Hygiene::~Hygiene() {
  if (loadavg_ >= 0) close(loadavg_);
  if (frequency_ >= 0) close(frequency_);
}

double Hygiene::frequency_mhz() const {
  char text[32] = "";
  if (frequency_ < 0 || pread(frequency_, text, sizeof text - 1, 0) <= 0) return 0;
  return std::atof(text) * 1e-3;
}

// The fastest of some runs: what the machine can do now, not what interrupted it.
double Hygiene::time_reference() const {
  const std::vector<int> mine = allowed_cpus();
  pin_to({cpus_[0]});
  reference_once();
  double best = reference_once();
  for (int i = 0; i < 20; ++i) best = std::min(best, reference_once());
  pin_to(mine);
  return best;
}

bool Hygiene::steady() {
  const bool first = baseline_us_ == 0;
  if (!first && now() < checked_at_ + options_.check_every_s) return true;
  reference_us_ = time_reference();
  if (first) baseline_us_ = options_.baseline_us > 0 ? options_.baseline_us : reference_us_;
  const auto slow = [&] { return reference_us_ > baseline_us_ * (1 + options_.drift_limit); };
  if (options_.drift_limit > 0) {
    for (double pause_s : kCoolDowns) {
      if (!slow()) break;
      std::this_thread::sleep_for(std::chrono::duration<double>(pause_s));
      reference_us_ = time_reference();
    }
  }
  if (options_.drift_limit <= 0 || !slow()) {
    discards_ = 0;
  } else if (++discards_ <= options_.max_discards) {
    return false;  // and is looked at again before the next measurement
  }
  checked_at_ = now();
  return true;
}

void Hygiene::look(pid_t worker) {
  if (now() < last_.at + kLookEvery) return;
  Sight sight;
  sight.at = now();
  sight.worker = worker;
  sight.worker_s = process_seconds(worker);
  processor_seconds(cpus_, &sight.busy_s, &sight.steal_s);
  const double span = (sight.at - last_.at) * static_cast<double>(cpus_.size());
  if (last_.at > 0) {
    steal_ = std::max(0.0, sight.steal_s - last_.steal_s) / span;
    const double own = sight.worker_s - last_.worker_s;
    if (worker > 0 && worker == last_.worker) {
      foreign_ = std::clamp((sight.busy_s - last_.busy_s - own) / span, 0.0, 1.0);
    }
  }
  last_ = sight;
}

bool Hygiene::begin(pid_t worker) {
  look(worker);
  if (!steady()) return false;
  mhz_before_ = frequency_mhz();
  return true;
}

void Hygiene::end(pid_t) {
  mhz_after_ = frequency_mhz();
  char text[32] = "";
  if (loadavg_ >= 0 && pread(loadavg_, text, sizeof text - 1, 0) > 0) load_ = std::atof(text);
}

std::string Hygiene::json(const TimedUsage& usage, const std::vector<double>& samples_us) const {
  std::string text = absl::StrFormat(
      "\"load\":%.2f,\"switches\":[%d,%d],\"major_faults\":%d,\"outliers\":%d,"
      "\"discarded\":{\"warm_up\":1},\"reference_us\":%.2f,\"drift\":%.4f",
      load_, usage.voluntary, usage.involuntary, usage.major_faults, count_outliers(samples_us),
      reference_us_, baseline_us_ > 0 ? reference_us_ / baseline_us_ - 1 : 0.0);
  if (discards_ > options_.max_discards) text += ",\"drift_accepted\":true";
  if (foreign_ >= 0) text += absl::StrFormat(",\"foreign_cpu\":%.3f", foreign_);
  if (steal_ >= 0) text += absl::StrFormat(",\"steal\":%.3f", steal_);
  if (frequency_ >= 0) text += absl::StrFormat(",\"mhz\":[%.0f,%.0f]", mhz_before_, mhz_after_);
  return text;
}

}  // namespace lw
