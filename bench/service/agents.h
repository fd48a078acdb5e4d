// Agents as the daemon sees them, without anything behind: they synchronize, hold jobs, and report
// valid results for them. One thread drives a thousand.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace lw {

struct FleetShape {
  std::string address;
  int agents = 1000;
  int connections = 0;                     // 0: one each
  // 0: a call follows the answer to the one before, each with results. Else calls a second of each
  // agent, at times that do not depend on the answers; every other call has results.
  double rate = 2;
  double warm_s = 5, timed_s = 20;
};

struct FleetCounts {
  std::vector<double> latency_ms;          // of timed calls, from when each should have been made
  int64_t calls = 0, calls_with_results = 0;       // timed
  int64_t results = 0;                     // candidates in timed receipts STORED
  int64_t stored_jobs = 0, stored_results = 0;     // all receipts STORED, warm-up included
  int64_t refused = 0, errors = 0, idle = 0;       // idle: answers without the job that was wanted
  double timed_s = 0;
  double own_cpu_s = 0;                    // of the simulation, in the timed stretch
};

FleetCounts run_fleet(const FleetShape& shape);

}  // namespace lw
