// Sustained bandwidth at a footprint and a mix of reads and writes. The loop reads and writes whole
// vectors in the smallest ratio of integers up to 8 that comes near the mix, both streams
// ascending; what is read is copied to the written stream as far as it goes and else summed into 8
// registers. Writing is tried with plain and with non-temporal stores (plain ones read the line
// first, which costs a third of a copy's traffic beyond the caches), and the better one counts; so
// does prefetching what is read, where it is better still: a sum of 4 MB took 117 % of the
// bandwidth of the loop without.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schedules/targets/cpu/cpu_target.h"
#include "schedules/targets/family.h"
#include "src/base/check.h"
#include "src/measure/machine/doctor.h"
#include "src/measure/machine/probe.h"

namespace lw {
namespace {

constexpr int kSums = 8;
constexpr int kLineBytes = 64;
constexpr int64_t kAheadBytes = 4096;

struct Mix {
  int reads = 1, writes = 0;  // vectors a step
};

Mix nearest_mix(double read_fraction) {
  Mix best;
  double best_error = 2;
  for (int total = 1; total <= 8; ++total) {
    const int reads = static_cast<int>(std::lround(read_fraction * total));
    const double error = std::fabs(static_cast<double>(reads) / total - read_fraction);
    if (error < best_error - 1e-9) {
      best_error = error;
      best = {reads, total - reads};
    }
  }
  // At least 8 vectors a step: the loop's own instructions do not count.
  const int unroll = (kSums + best.reads + best.writes - 1) / (best.reads + best.writes);
  return {best.reads * unroll, best.writes * unroll};
}

// How the loop is written.
struct Way {
  bool streaming = false, prefetching = false;
};

// f32 vectors; registers: 8 sums, then one per read of a step, or a constant to write.
Probe bandwidth_probe(int lanes, const Mix& mix, int64_t steps, const Way& way) {
  const int64_t in = std::max<int64_t>(steps * mix.reads, 1) * lanes;
  const int64_t out = std::max<int64_t>(steps * mix.writes, 1) * lanes;
  std::string text = absl::StrFormat(
      "kernel bandwidth arguments=3 variables=1 workspace=0 private=0 packed=0\n"
      "buffer in f32 %d argument 0\nbuffer out f32 %d argument 1 written\n"
      "buffer sums f32 %d argument 2 written\nregisters f32x%d %d\nbody {\n",
      in, out, kSums * lanes, lanes, kSums + std::max(mix.reads, 1));
  for (int r = 0; r <= kSums; ++r) absl::StrAppendFormat(&text, "r%d = const 0\n", r);
  absl::StrAppendFormat(&text, "for v0 < %d {\n", steps);
  for (int r = 0; r < mix.reads; ++r) {
    if (way.prefetching && 4 * lanes * r % kLineBytes == 0) {
      absl::StrAppendFormat(&text, "prefetch in[%d*v0 + %d] locality 3\n", mix.reads * lanes,
                            r * lanes + kAheadBytes / 4);
    }
    absl::StrAppendFormat(&text, "r%d = load in[%d*v0 + %d] stride 1\n", kSums + r,
                          mix.reads * lanes, r * lanes);
    if (r >= mix.writes) {
      absl::StrAppendFormat(&text, "r%d = add r%d, r%d\n", r % kSums, r % kSums, kSums + r);
    }
  }
  for (int w = 0; w < mix.writes; ++w) {
    absl::StrAppendFormat(&text, "store out[%d*v0 + %d] = r%d stride 1%s\n", mix.writes * lanes,
                          w * lanes, kSums + (mix.reads > 0 ? w % mix.reads : 0),
                          way.streaming ? " nt" : "");
  }
  absl::StrAppend(&text, "}\n");
  for (int s = 0; s < kSums; ++s) {
    absl::StrAppendFormat(&text, "store sums[%d] = r%d stride 1\n", s * lanes, s);
  }
  Probe probe;
  probe.kernel = text + "}\n";
  probe.argument_bytes = {in * 4, out * 4, int64_t{kSums} * lanes * 4};
  return probe;
}

}  // namespace

absl::StatusOr<Bandwidth> measure_bandwidth(const Target& target, int64_t footprint_bytes,
                                            double read_fraction, int threads, double budget_s) {
  const int width = lanes(target, Type::kF32);
  const Mix mix = nearest_mix(std::clamp(read_fraction, 0.0, 1.0));
  const int64_t step_bytes = int64_t{4} * width * (mix.reads + mix.writes);
  const int64_t steps = std::max<int64_t>(1, footprint_bytes / threads / step_bytes);
  const double budget = budget_s / (mix.writes > 0 ? 3 : 2);
  Bandwidth best;
  const auto attempt = [&](const Way& way) -> absl::Status {
    ASSIGN_OR_RETURN(const double rate,
                     best_rate(bandwidth_probe(width, mix, steps, way), target, threads,
                               static_cast<double>(steps * step_bytes), budget));
    if (rate * 1e-9 > best.gbytes_per_s) best = {rate * 1e-9, way.streaming};
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(attempt({}));
  if (mix.writes > 0) RETURN_IF_ERROR(attempt({.streaming = true}));
  if (mix.reads > 0) RETURN_IF_ERROR(attempt({best.streaming, /*prefetching=*/true}));
  return best;
}

absl::StatusOr<Bandwidth> measure_bandwidth(int64_t footprint_bytes, double read_fraction,
                                            int threads, double budget_s) {
  ASSIGN_OR_RETURN(const Target host, find_target("host"));
  return measure_bandwidth(host, footprint_bytes, read_fraction, threads, budget_s);
}

}  // namespace lw
