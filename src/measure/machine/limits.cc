#include "src/measure/machine/limits.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "schedules/dot.h"
#include "schedules/targets/cpu/cpu_target.h"
#include "schedules/targets/family.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/measure/machine/doctor.h"
#include "src/measure/machine/instructions.h"

namespace lw {
namespace {

// A footprint below this is of the nearest cache like any: the loop over it is long enough that its
// start and end do not count.
constexpr int64_t kLeastFootprint = 16 << 10;
// A mix that would have to be so much slower than the target's data say to set the bound.
constexpr double kSurelyFaster = 4;

// The type that a limit of arithmetic is measured in.
Type computed_type(Type type) {
  if (type == Type::kF64) return type;
  return is_float(type) ? Type::kF32 : Type::kI32;
}

int64_t footprint_of(const Work& work) {
  return static_cast<int64_t>(work.bytes_read + work.bytes_written);
}

double multiply_adds(const Work& work) {
  double count = 0;
  for (const OperationCount& o : work.operations)
    if (o.adds) count += o.count;
  return count;
}

double compute_us(const Work& work, const Limits& limits) {
  return 2 * multiply_adds(work) / limits.peak_gflops / 1e3;
}

double memory_us(const Work& work, const Limits& limits) {
  return (work.bytes_read + work.bytes_written) / limits.bandwidth_gbytes / 1e3;
}

// Of what the program reads and writes, in that proportion, by all units together. Processors read
// and write at once, each for itself; a machine of many threads has one memory behind all its units,
// whose reads and writes take turns.
double bytes_per_cycle(const Work& work, const Target& target, const CacheLevel& level,
                       int threads) {
  const double together = level.read_bytes_per_cycle + level.write_bytes_per_cycle;
  if (target.part.family()->has_threads || !level.shared) return together * threads;
  const double bytes = work.bytes_read + work.bytes_written;
  const double cycles = work.bytes_read / level.read_bytes_per_cycle +
                        work.bytes_written / level.write_bytes_per_cycle;
  return cycles > 0 ? bytes / cycles : together;
}

}  // namespace

std::string PeakKind::name() const {
  if (dot == nullptr) return std::string(type_name(type));
  return concat(type_name(dot->a), " x ", type_name(dot->b), " into ", type_name(dot->acc));
}

// The instruction that multiplies the matrices of the tensor's sum; null: there is none.
static const Atom* matrix_atom(const Tensor& tensor, const Target& target) {
  const int axes = static_cast<int>(tensor.axes.size());
  for (int m = 0; m < axes && tensor.reduce == Reduce::kSum; ++m) {
    for (int n = 0; n < axes; ++n) {
      const auto factors = matrix_factors(target, tensor.body, tensor.type, m, n);
      if (!factors) continue;
      const Atom& atom = *factors->atom;
      const Atom* const wide = wide_product(target, atom.a, atom.b, atom.acc);
      return wide != nullptr ? wide : &atom;
    }
  }
  return nullptr;
}

// Of the largest reduction, else of the largest map.
PeakKind peak_kind(const Program& program, const Target& target) {
  double most = -1;
  PeakKind kind;
  for (const Tensor& tensor : program.tensors) {
    if (tensor.body == nullptr) continue;
    double points = static_cast<double>(elements(tensor));
    for (const Axis& axis : tensor.reduce_axes) points *= static_cast<double>(axis.extent);
    if (points <= most) continue;
    most = points;
    kind.type = computed_type(tensor.type);
    std::optional<DotFactors> factors;
    if (tensor.reduce == Reduce::kSum) factors = dot_factors(target, tensor.body, tensor.type);
    kind.dot = factors ? factors->atom : nullptr;
    if (const Atom* matrices = matrix_atom(tensor, target)) kind.dot = matrices;
  }
  return kind;
}

absl::StatusOr<double> measure_peak(const PeakKind& kind, const Target& target, int threads,
                                    double budget_s) {
  ASSIGN_OR_RETURN(const double peak, measure_peak_gflops(target, kind.type, threads, budget_s));
  if (kind.dot == nullptr) return peak;
  ASSIGN_OR_RETURN(const double dots, measure_dot_gflops(target, *kind.dot, threads, budget_s));
  return std::max(peak, dots);
}

absl::StatusOr<Limits> measure_limits(const Program& program, const Work& work,
                                      const Target& target, int threads, double budget_s) {
  Limits limits;
  ASSIGN_OR_RETURN(limits.peak_gflops,
                   measure_peak(peak_kind(program, target), target, threads, budget_s));
  const int64_t footprint = std::max(footprint_of(work), threads * kLeastFootprint);
  const double read =
      work.bytes_read / std::max(work.bytes_read + work.bytes_written, 1.0);
  ASSIGN_OR_RETURN(const Bandwidth bandwidth,
                   measure_bandwidth(target, footprint, read, threads, budget_s));
  limits.bandwidth_gbytes = bandwidth.gbytes_per_s;
  const double others_us = std::max(compute_us(work, limits), memory_us(work, limits));
  for (const InstructionMix& mix : instruction_mixes(work, target)) {
    const double likely_us = mix.elements / nominal_instruction_rate(target, mix, threads) / 1e3;
    if (kSurelyFaster * likely_us < others_us) continue;
    ASSIGN_OR_RETURN(limits.instructions[mix.name],
                     measure_instruction_rate(target, mix, threads, budget_s / 2));
  }
  return limits;
}

Limits nominal_limits(const Program& program, const Work& work, const Target& target,
                      int threads) {
  const PeakKind main = peak_kind(program, target);
  double lanes_per_cycle = lanes(target, main.type);  // without an atom: one multiply-add a cycle
  const auto rate = [](const Atom& atom) { return products_of(atom) * atom.per_cycle; };
  if (const Atom* atom = multiply_add(target, main.type)) lanes_per_cycle = rate(*atom);
  if (main.dot != nullptr) lanes_per_cycle = std::max(lanes_per_cycle, rate(*main.dot));
  const int64_t footprint = footprint_of(work);
  const CacheLevel* level = &target.caches.back();
  for (const CacheLevel& cache : target.caches) {
    if (cache.bytes < footprint) continue;
    level = &cache;
    break;
  }
  Limits limits;
  limits.peak_gflops = 2 * lanes_per_cycle * target.ghz * threads;
  limits.bandwidth_gbytes = target.ghz * bytes_per_cycle(work, target, *level, threads);
  for (const InstructionMix& mix : instruction_mixes(work, target))
    limits.instructions[mix.name] = nominal_instruction_rate(target, mix, threads);
  return limits;
}

Limits larger(const Limits& a, const Limits& b) {
  Limits larger = a;
  larger.peak_gflops = std::max(a.peak_gflops, b.peak_gflops);
  larger.bandwidth_gbytes = std::max(a.bandwidth_gbytes, b.bandwidth_gbytes);
  for (const auto& [name, rate] : b.instructions) {
    double& known = larger.instructions[name];
    known = std::max(known, rate);
  }
  return larger;
}

Bound find_bound(const Work& work, const Target& target, const Limits& limits) {
  Bound bound;
  bound.flops = work.flops;
  bound.bytes = work.bytes_read + work.bytes_written;
  bound.peak_gflops = limits.peak_gflops;
  bound.bandwidth_gbytes = limits.bandwidth_gbytes;
  bound.limits = {
      {"compute", compute_us(work, limits), absl::StrFormat("%.4g GFLOP/s", limits.peak_gflops)},
      {"memory", memory_us(work, limits), absl::StrFormat("%.4g GB/s", limits.bandwidth_gbytes)}};
  for (const InstructionMix& mix : instruction_mixes(work, target)) {
    const auto rate = limits.instructions.find(mix.name);
    if (rate == limits.instructions.end() || rate->second <= 0) continue;
    bound.limits.push_back({"instructions", mix.elements / rate->second / 1e3, mix.name});
  }
  std::stable_sort(bound.limits.begin(), bound.limits.end(),
                   [](const TimeLimit& a, const TimeLimit& b) { return a.us > b.us; });
  bound.bound_us = bound.limits.front().us;
  return bound;
}

}  // namespace lw
