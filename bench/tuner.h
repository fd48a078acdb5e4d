// Our side of the table, through what a user has: the `loopwright` binary and its --json output.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/compare.h"
#include "nlohmann/json.hpp"

namespace lw {

// A finished run of a command.
struct ProcessRun {
  std::string output;                      // its stdout
  int exit_code = 0;
  double wall_s = 0;                       // from before it was started to its end
  int64_t peak_bytes = 0;                  // proportional memory of it and all its descendants, at
                                           // most; 0 unless asked for
};
// `environment`: "NAME=value" each, instead of this process's own.
absl::StatusOr<ProcessRun> run_process(const std::vector<std::string>& command,
                                       const std::vector<std::string>& environment,
                                       bool watch_memory = false);
// This process's own. Take it before peers are loaded: some set variables (libxsmm OMP_PROC_BIND)
// that would confine the tuner to one processor.
std::vector<std::string> own_environment();

struct TunerOptions {
  std::string binary;                      // path of `loopwright`
  std::string folder;                      // for databases and exported kernels; must exist
  double seconds_cap = 60;                 // of one tune, below what the case says
  std::vector<int> cpus;                   // that kernels run on
  std::vector<std::string> environment;    // of its processes
  std::string target;                      // --target of `tune` and `export`; "": this machine
};

// `tune WORDS --json` into `database`, its document. Fails with what the command said.
absl::StatusOr<nlohmann::json> tune(const TunerOptions& options, const BenchCase& bench_case,
                                    int threads, const std::string& database,
                                    ProcessRun* run = nullptr, bool watch_memory = false);

// `export` into `folder` of the kernel that `database` knows (`frozen`), or else the first answer,
// as it leaves the compiler: "verified and timed" is a figure of its own.
absl::StatusOr<ProcessRun> run_export(const TunerOptions& options, const BenchCase& bench_case,
                                      int threads, const std::string& database, bool frozen,
                                      const std::string& folder);

// Tunes a case (first `--trials 0` on a database of its own, then in full), exports the best kernel
// and loads it here, ready to run on the given arguments.
OurSide our_side(const TunerOptions& options);

}  // namespace lw
