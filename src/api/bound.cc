// The bound of a task: the larger of useful FLOPs over the peak and compulsory bytes over the
// bandwidth, both measured beside the time that they judge, or now.
#include <algorithm>

#include "nlohmann/json.hpp"
#include "src/base/check.h"
#include "src/api/api.h"
#include "src/measure/limits.h"

namespace lw {
namespace {

Bound bound_of(const Task& task, const Limits& limits) {
  Bound bound;
  bound.flops = count_flops(*task.program);
  bound.bytes = compulsory_bytes(*task.program);
  bound.peak_gflops = limits.peak_gflops;
  bound.bandwidth_gbytes = limits.bandwidth_gbytes;
  bound.compute_us = bound.flops.useful / bound.peak_gflops / 1e3;
  bound.memory_us = bound.bytes / bound.bandwidth_gbytes / 1e3;
  bound.bound_us = std::max(bound.compute_us, bound.memory_us);
  bound.compute_bound = bound.compute_us >= bound.memory_us;
  return bound;
}

// What finalists carry (measure/measure_client.cc); zeros where there is nothing.
Limits stored_limits(const Measurement& measurement) {
  const nlohmann::json environment =
      nlohmann::json::parse(measurement.environment, nullptr, /*allow_exceptions=*/false);
  if (!environment.is_object()) return {};
  const auto number = [&](const char* name) {
    const auto it = environment.find(name);
    return it != environment.end() && it->is_number() ? it->get<double>() : 0.0;
  };
  return {number("peak_gflops"), number("bandwidth_gbytes_per_s")};
}

absl::StatusOr<Limits> limits_of(const Task& task, double budget_s) {
  const absl::StatusOr<RunsOn> device = find_device(task);
  if (device.ok() && *device == RunsOn::kEmulator) {
    return nominal_limits(*task.program, *task.target, task.threads());
  }
  return measure_limits(*task.program, *task.target, task.threads(), budget_s);
}

}  // namespace

absl::StatusOr<Bound> measure_bound(const Task& task, double budget_s) {
  ASSIGN_OR_RETURN(const Limits limits, limits_of(task, budget_s));
  return bound_of(task, limits);
}

absl::StatusOr<Bound> measure_bound_beside(const Task& task, double time_us, double budget_s) {
  ASSIGN_OR_RETURN(Limits limits, limits_of(task, budget_s));
  for (int attempt = 0; attempt < 3 && bound_of(task, limits).bound_us > time_us; ++attempt) {
    budget_s *= 3;
    ASSIGN_OR_RETURN(const Limits again, limits_of(task, budget_s));
    limits.peak_gflops = std::max(limits.peak_gflops, again.peak_gflops);
    limits.bandwidth_gbytes = std::max(limits.bandwidth_gbytes, again.bandwidth_gbytes);
  }
  return bound_of(task, limits);
}

absl::StatusOr<Bound> bound_beside(const Task& task, const Measurement& measurement,
                                   double budget_s) {
  const Limits limits = stored_limits(measurement);
  if (limits.peak_gflops > 0 && limits.bandwidth_gbytes > 0) {
    const Bound bound = bound_of(task, limits);
    if (bound.bound_us <= measurement.time_us) return bound;
  }
  return measure_bound_beside(task, measurement.time_us, budget_s);
}

}  // namespace lw
