// What the benches of tuned layers share: tasks of layers, cycles of nests, searches, means.
#pragma once

#include <cmath>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "bench/npu/layers.h"
#include "loopwright/program.h"
#include "loopwright/tuning.h"
#include "schedules/targets/target.h"
#include "src/api/run/tune_task.h"
#include "src/base/check.h"
#include "src/lower/lower.h"
#include "src/measure/npu/simulated.h"

namespace lw {

inline absl::StatusOr<Task> make_layer(const std::string& text, const std::string& name,
                                       std::shared_ptr<const Target> target) {
  ASSIGN_OR_RETURN(Program program, parse_program(text, name));
  return make_task(std::move(program), name, std::move(target), 1);
}

// Microseconds of the program; 0 where there is none.
inline double us_of(const Task& task, const Kernel& kernel) {
  const absl::StatusOr<Artifact> artifact = task.backend().build(kernel, *task.target());
  if (!artifact.ok()) return 0;
  const absl::StatusOr<double> us = simulated_us(*artifact);
  return us.ok() ? *us : 0;
}
inline double us_of(const Task& task, const Nest& nest) {
  const absl::StatusOr<Kernel> kernel = lower(nest);
  return kernel.ok() ? us_of(task, *kernel) : 0;
}

inline absl::StatusOr<TuneResult> search(const Task& task, int trials) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Store> store, open_measurements(""));
  SearchOptions options;
  options.trials = trials;
  options.seconds = 60;
  return tune_task(task, *store, options);
}

inline double cycles_of(const Task& task, double us) { return us * task.target()->ghz * 1e3; }

struct Means {
  double sum = 0;
  int count = 0;
  void add(double value) { sum += std::log(value), ++count; }
  double mean() const { return count == 0 ? 0 : std::exp(sum / count); }
};

}  // namespace lw
