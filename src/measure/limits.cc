#include "src/measure/limits.h"

#include <algorithm>

#include "src/base/check.h"
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
  ASSIGN_OR_RETURN(limits.peak_gflops,
                   measure_peak_gflops(target, working_type(program), threads, budget_s));
  ASSIGN_OR_RETURN(const Bandwidth bandwidth,
                   measure_bandwidth(target, static_cast<int64_t>(total), read / total, threads,
                                     budget_s));
  limits.bandwidth_gbytes = bandwidth.gbytes_per_s;
  return limits;
}

Limits nominal_limits(const Program& program, const Target& target, int threads) {
  const Type type = working_type(program);
  double lanes_per_cycle = lanes(target, type);  // without an atom: one multiply-add a cycle
  for (const Atom& atom : target.atoms) {
    if (atom.acc == type) lanes_per_cycle = atom.lanes * atom.group * atom.per_cycle;
  }
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
