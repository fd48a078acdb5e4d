// The rows of the service's table: each runs alone, on this machine, against processes as anybody
// starts them, and puts what it measured beside its bar.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "src/base/clock.h"

namespace lw {

struct ServiceBenchOptions {
  std::string loopwright;                  // the binary: daemon, agent and tuner
  std::string folder;                      // databases, logs; on a real disk
  double seconds = 20;                     // of each timed stretch
  int agents = 1000;
  int connections = 0;                     // of the simulated agents; 0: one each
  int measurements = 1'000'000, keys = 20'000, shapes = 10'000;  // shapes: of the largest structure
  int trials = 200, repeats = 2;           // of the row `tuning`
};

class ServiceReport {
 public:
  explicit ServiceReport(bool quiet) : quiet_(quiet) {}
  // `bar`: met when `measured` is at most (`at_least`: at least) it; 0: none, only told.
  void add(const std::string& row, const std::string& what, double measured, double bar,
           const std::string& unit, bool at_least = false);
  void tell(const std::string& row, const std::string& what, double measured,
            const std::string& unit) {
    add(row, what, measured, 0, unit);
  }
  const nlohmann::ordered_json& document() const { return document_; }
  bool all_met() const { return all_met_; }

 private:
  const bool quiet_;
  bool all_met_ = true;
  nlohmann::ordered_json document_ = nlohmann::ordered_json::array();
};

void bench_synchronize(const ServiceBenchOptions& options, ServiceReport& report);
void bench_beside(const ServiceBenchOptions& options, ServiceReport& report);
void bench_results(const ServiceBenchOptions& options, ServiceReport& report);
void bench_lookup(const ServiceBenchOptions& options, ServiceReport& report);
void bench_snapshot(const ServiceBenchOptions& options, ServiceReport& report);
void bench_withdrawn(const ServiceBenchOptions& options, ServiceReport& report);
void bench_tuning(const ServiceBenchOptions& options, ServiceReport& report);
void bench_memory(const ServiceBenchOptions& options, ServiceReport& report);
void bench_startup(const ServiceBenchOptions& options, ServiceReport& report);

// REQUIRES: sorts; not empty; 0 <= share < 1.
double percentile(std::vector<double>& values, double share);

}  // namespace lw
