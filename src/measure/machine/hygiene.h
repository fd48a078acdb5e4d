// What a measurement was made under: the facts of the machine, and what disturbed it meanwhile.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lw {

// The machine as timings depend on it. What cannot be read is "" or 0.
struct DeviceFacts {
  // Stable: a change of any begins a new epoch, and timings of two epochs do not mix.
  std::string architecture, cpu, microcode, kernel, hypervisor, isolated_cpus, cpus_online;
  int64_t processors = 0, threads_per_core = 0, numa_nodes = 0, memory_mib = 0;
  // Volatile.
  std::string governor, turbo, huge_pages;  // turbo: "on", "off"
  double load = 0;                          // processes that wanted to run, last minute
  bool operator==(const DeviceFacts&) const = default;
};

// `root`: before /proc and /sys; tests have their own.
DeviceFacts read_device_facts(const std::string& root = "");
// Lower-case hexadecimal SHA-256 of the stable facts.
std::string device_fingerprint(const DeviceFacts& facts);
// One line of JSON, {"stable":{...},"volatile":{...}}, and back; kInvalidArgument: it is not that.
std::string to_json(const DeviceFacts& facts);
absl::StatusOr<DeviceFacts> parse_device_facts(std::string_view json);

struct HygieneOptions {
  // A fixed small kernel is timed at the start and then every `check_every_s`. More than
  // `drift_limit` slower than the baseline, also after a pause: the measurement is kThrottled, but
  // never more than `max_discards` in a row: a machine that stays slow still gives data, and they
  // say so. A quiet board keeps within 0.03; shared hosts move by 0.04 within minutes and a
  // neighbour takes 0.3 for seconds, hence the default. 0: never discard.
  double drift_limit = 0.5;
  double baseline_us = 0;  // of the device's epoch; 0: this session's first
  double check_every_s = 30;
  int max_discards = 3;
};

// What the process that ran a kernel spent around its timed calls, all its threads together.
struct TimedUsage {
  int64_t voluntary = 0, involuntary = 0;  // context switches
  int64_t major_faults = 0;
};
TimedUsage usage_so_far();
TimedUsage operator-(const TimedUsage& a, const TimedUsage& b);

// Gathers the evidence in the parent. Microseconds a measurement: two small reads; processors and
// reference are looked at only when due. Thread-compatible.
class Hygiene {
 public:
  // `cpus` measure. `flags`: what could not be done elsewhere (isolation).
  Hygiene(const HygieneOptions& options, std::vector<int> cpus, std::vector<std::string> flags);
  ~Hygiene();
  Hygiene(const Hygiene&) = delete;

  // Around a measurement by process `worker` (0: not started yet). begin: whether the machine is
  // steady enough; false: try again later. The calling thread visits the measuring processors.
  bool begin(pid_t worker);
  void end(pid_t worker);

  // `"host":{...},"hygiene_flags":[...]`, what holds for all measurements.
  const std::string& constant_json() const { return constant_; }
  // `"load":...,...` of the last measurement.
  std::string json(const TimedUsage& usage, const std::vector<double>& samples_us) const;
  double reference_us() const { return reference_us_; }
  double baseline_us() const { return baseline_us_; }

 private:
  struct Sight {
    double at = 0, busy_s = 0, steal_s = 0, worker_s = 0;
    pid_t worker = 0;
  };
  double time_reference() const;
  bool steady();
  void look(pid_t worker);
  double frequency_mhz() const;

  const HygieneOptions options_;
  const std::vector<int> cpus_;
  std::string constant_;
  int loadavg_ = -1, frequency_ = -1;  // descriptors; -1: not readable
  double load_ = 0, mhz_before_ = 0, mhz_after_ = 0;
  double reference_us_ = 0, baseline_us_ = 0, checked_at_ = 0;
  int discards_ = 0;
  Sight last_;
  double foreign_ = -1, steal_ = -1;  // shares of the measuring processors; -1: not known yet
};

}  // namespace lw
