// The bound of a task: the larger of useful FLOPs over the measured peak and compulsory bytes over
// the bandwidth measured at the task's own footprint and mix of reads and writes.
#include <algorithm>

#include "src/base/check.h"
#include "src/cli/api.h"
#include "src/measure/doctor.h"

namespace lw {
namespace {

// The type that most of the work is done in: of the largest reduction, else of the largest map.
Type working_type(const Program& program) {
  double most = -1;
  Type type = Type::kF32;
  for (const Tensor& tensor : program.tensors) {
    if (tensor.body == nullptr) continue;
    double points = static_cast<double>(elements(tensor));
    for (const Axis& axis : tensor.reduce_axes) points *= static_cast<double>(axis.extent);
    if (points <= most) continue;
    most = points;
    type = tensor.type;
  }
  if (type == Type::kF64) return type;
  return is_float(type) ? Type::kF32 : Type::kI32;
}

void derive(Bound& bound) {
  bound.compute_us = bound.flops.useful / bound.peak_gflops / 1e3;
  bound.memory_us = bound.bytes / bound.bandwidth_gbytes / 1e3;
  bound.bound_us = std::max(bound.compute_us, bound.memory_us);
  bound.compute_bound = bound.compute_us >= bound.memory_us;
}

}  // namespace

absl::StatusOr<Bound> measure_bound(const Task& task, double budget_s) {
  const Program& program = *task.program;
  Bound bound;
  bound.flops = count_flops(program);
  bound.bytes = compulsory_bytes(program);
  double read = 0, total = 0;
  for (int t : arguments(program)) {
    const double size = static_cast<double>(bytes(program.tensors[t]));
    total += size;
    if (program.tensors[t].role == Role::kInput) read += size;
  }
  ASSIGN_OR_RETURN(bound.peak_gflops, measure_peak_gflops(*task.target, working_type(program),
                                                          task.threads(), budget_s));
  ASSIGN_OR_RETURN(const Bandwidth bandwidth,
                   measure_bandwidth(*task.target, static_cast<int64_t>(total), read / total,
                                     task.threads(), budget_s));
  bound.bandwidth_gbytes = bandwidth.gbytes_per_s;
  derive(bound);
  return bound;
}

absl::StatusOr<Bound> measure_bound_beside(const Task& task, double time_us, double budget_s) {
  ASSIGN_OR_RETURN(Bound bound, measure_bound(task, budget_s));
  for (int attempt = 0; attempt < 3 && bound.bound_us > time_us; ++attempt) {
    budget_s *= 3;
    ASSIGN_OR_RETURN(const Bound again, measure_bound(task, budget_s));
    bound.peak_gflops = std::max(bound.peak_gflops, again.peak_gflops);
    bound.bandwidth_gbytes = std::max(bound.bandwidth_gbytes, again.bandwidth_gbytes);
    derive(bound);
  }
  return bound;
}

}  // namespace lw
