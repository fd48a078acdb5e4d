// What this machine can do at most, how steady it is, and what is wrong with it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "loopwright/type.h"
#include "src/measure/machine/hygiene.h"
#include "src/measure/process/isolation.h"

namespace lw {

struct Atom;
struct Target;

// Largest rate of multiply-adds, counted as two operations, in 1e9/s, over `threads` processors
// together; the best of several loops. f64 and i32 as such; f32 for the other floats and i32 for
// the other integers, because that is what kernels compute them in. About `budget_s` and, the first
// time, 50 ms of building. Measure it beside what it judges: clocks drift. A fraction of it above 1
// is an error of one of the two measurements.
absl::StatusOr<double> measure_peak_gflops(Type type, int threads, double budget_s = 0.05);
// The same for a lesser target that this machine emulates.
absl::StatusOr<double> measure_peak_gflops(const Target& target, Type type, int threads,
                                           double budget_s = 0.05);
// The same of a dot product's instruction alone: twice its lanes times its group a time.
absl::StatusOr<double> measure_dot_gflops(const Target& target, const Atom& atom, int threads,
                                          double budget_s = 0.05);

// Sustained traffic of a loop that goes over `footprint_bytes` again and again, read_fraction of
// them read, the rest written (0.5: copy), shared evenly by the threads.
struct Bandwidth {
  double gbytes_per_s = 0;  // read and written together
  bool streaming = false;   // non-temporal stores were faster
};
absl::StatusOr<Bandwidth> measure_bandwidth(int64_t footprint_bytes, double read_fraction,
                                            int threads, double budget_s = 0.05);
absl::StatusOr<Bandwidth> measure_bandwidth(const Target& target, int64_t footprint_bytes,
                                            double read_fraction, int threads,
                                            double budget_s = 0.05);

// Clock of this processor under a light load, in GHz: a chain of dependent additions, one a cycle.
double measure_clock_ghz(double budget_s = 0.01);

struct DoctorReport {
  struct Peak {
    Type type = Type::kF32;
    int threads = 1;
    double gflops = 0;
  };
  struct Level {
    std::string name;  // of the cache level that holds the footprint
    int64_t footprint_bytes = 0;
    int threads = 1;
    double read = 0, write = 0, copy = 0, stream_copy = 0;  // GB/s; stream_copy 0: plain stores won
  };
  std::string cpu, target;
  int cores = 1;
  double clock_ghz = 0;
  std::vector<Peak> peaks;
  std::vector<Level> levels;
  double timer_resolution_s = 0;
  double noise = 0;                   // coefficient of variation of a fixed loop of 0.2 ms
  double steal = 0;                   // share of the time that the hypervisor took away
  double load = 0;                    // processes that wanted to run, last minute
  std::string governor;               // "": not visible
  DeviceFacts facts;
  Isolation isolation;                // of workers that run candidates
  std::vector<std::string> problems;  // in words; empty: nothing wrong
};
// Some seconds; `quick`: about one, with fewer levels.
absl::StatusOr<DoctorReport> doctor(const Target& target, bool quick = false);
std::string to_json(const DoctorReport& report);
std::string to_text(const DoctorReport& report);

}  // namespace lw
