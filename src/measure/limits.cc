#include "src/measure/limits.h"

#include <algorithm>

#include "schedules/dot.h"
#include "src/base/check.h"
#include "src/measure/doctor.h"

namespace lw {
namespace {

struct Work {
  Type type = Type::kF32;                  // that most of the work is done in
  const Atom* dot = nullptr;               // an instruction of the target for all of that at once
};

// Of the largest reduction, else of the largest map.
Work main_work(const Program& program, const Target& target) {
  double most = -1;
  Work work;
  for (const Tensor& tensor : program.tensors) {
    if (tensor.body == nullptr) continue;
    double points = static_cast<double>(elements(tensor));
    for (const Axis& axis : tensor.reduce_axes) points *= static_cast<double>(axis.extent);
    if (points <= most) continue;
    most = points;
    work.type = tensor.type;
    std::optional<DotFactors> factors;
    if (tensor.reduce == Reduce::kSum) factors = dot_factors(target, tensor.body, tensor.type);
    work.dot = factors ? factors->atom : nullptr;
  }
  if (work.type != Type::kF64) work.type = is_float(work.type) ? Type::kF32 : Type::kI32;
  return work;
}

}  // namespace

absl::StatusOr<Limits> measure_limits(const Program& program, const Target& target, int threads,
                                      double budget_s) {
  double read = 0, total = 0;
  for (int t : arguments(program)) {
    const double size = static_cast<double>(bytes(program.tensors[t]));
    total += size;
    if (program.tensors[t].role == Role::kInput) read += size;
  }
  Limits limits;
  const Work work = main_work(program, target);
  ASSIGN_OR_RETURN(limits.peak_gflops,
                   measure_peak_gflops(target, work.type, threads, budget_s));
  if (work.dot != nullptr) {
    ASSIGN_OR_RETURN(const double dots, measure_dot_gflops(target, *work.dot, threads, budget_s));
    limits.peak_gflops = std::max(limits.peak_gflops, dots);
  }
  ASSIGN_OR_RETURN(const Bandwidth bandwidth,
                   measure_bandwidth(target, static_cast<int64_t>(total), read / total, threads,
                                     budget_s));
  limits.bandwidth_gbytes = bandwidth.gbytes_per_s;
  return limits;
}

Limits nominal_limits(const Program& program, const Target& target, int threads) {
  const Work work = main_work(program, target);
  double lanes_per_cycle = lanes(target, work.type);  // without an atom: one multiply-add a cycle
  const auto rate = [](const Atom& atom) { return atom.lanes * atom.group * atom.per_cycle; };
  if (const Atom* atom = multiply_add(target, work.type)) lanes_per_cycle = rate(*atom);
  if (work.dot != nullptr) lanes_per_cycle = std::max(lanes_per_cycle, rate(*work.dot));
  int64_t footprint = 0;
  for (int t : arguments(program)) footprint += bytes(program.tensors[t]);
  const CacheLevel* level = &target.caches.back();
  for (const CacheLevel& cache : target.caches) {
    if (cache.bytes < footprint) continue;
    level = &cache;
    break;
  }
  Limits limits;
  limits.peak_gflops = 2 * lanes_per_cycle * target.ghz * threads;
  limits.bandwidth_gbytes =
      (level->read_bytes_per_cycle + level->write_bytes_per_cycle) * target.ghz * threads;
  return limits;
}

}  // namespace lw
