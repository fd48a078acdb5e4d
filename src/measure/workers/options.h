// How the local Measurer measures. A value.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/base/stop.h"
#include "src/build/build.h"
#include "src/measure/machine/hygiene.h"
#include "src/measure/process/isolation.h"
#include "tuner_db/key_terms.h"

namespace lw {

struct LocalOptions {
  int threads = 1;             // of the kernel
  Cache cache = Cache::kWarm;
  uint64_t seed = 1;           // of the inputs and the points
  int builders = 0;            // processes; 0: one for each processor that may build
  // The unscheduled kernel of the program: the second oracle. Null: interpret() where it is cheap,
  // else more points.
  std::shared_ptr<const Kernel> reference;
  int64_t points = 4096;        // of each output, for the first oracle
  double oracle_budget_s = 20;  // for all points, and again for the reference kernel
  double build_timeout_s = 30;
  double run_timeout_s = 10;                      // of one call; less once there is an incumbent
  int64_t memory_limit_bytes = int64_t{4} << 30;  // workspace, and each process's growth
  std::vector<int> cpus;                          // to use; empty: those this thread may use
  // The least that must keep candidates from this machine (isolation.h); all that can be had is
  // used in any case.
  IsolationLevel isolation = IsolationLevel::kNone;
  HygieneOptions hygiene;
  // A code generator that is not in build.h's table, and what loads its artifacts where this process
  // runs them (null: load()).
  const Backend* backend = nullptr;
  Loader load = nullptr;
  std::string exec;  // the command of an exec device (docs/exec.md) to measure on; "": none
  bool exec_clock = true;  // false: whatever that says of itself, its clock is none
  Stop stop;  // asked, interleave() waits no more: its outcomes are kWorkerLost
};

}  // namespace lw
