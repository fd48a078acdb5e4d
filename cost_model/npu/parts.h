// What the times of several kinds of stages are made of. Internal to cost_model/npu.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "loopwright/program.h"
#include "schedules/nest.h"
#include "schedules/npu/vector.h"
#include "src/npu/config.h"

namespace lw::cost::npu {

// A loop's iterations with the share that partial tiles have of full ones.
inline double iterations(const Stage& s, int loop) {
  const LoopPart part = s.loops[loop].parts[0];
  return static_cast<double>(range_of(s, loop)) / static_cast<double>(part.tile);
}
inline double whole(const Stage& s, int loop) { return static_cast<double>(trips(s, loop)); }

template <class Count>
double product_of_loops(const Stage& s, int begin, int end, const Count& count) {
  double result = 1;
  for (int l = begin; l < end; ++l) result *= count(s, l);
  return result;
}

// How long runs are copied (src/build/npu/unroller.h): longer ones than one instruction's in parts.
constexpr double kMostRun = 65535, kPart = 32768;

// A box in DRAM: runs of contiguous bytes, and the cycles that they take: data at the peak, and an
// activated row for each run that begins on another; both of the channels that the runs lie in.
struct Transfer {
  double bytes = 0, run = 0, cycles = 0;
  double parts = 1;                        // instructions of a run that is longer than one's
};

class Dram {
 public:
  explicit Dram(const lw::npu::Config& config)
      : peak_(lw::npu::peak_bytes_per_cycle(config)),
        paged_(config.dram.kind == lw::npu::DramKind::kPaged) {
    const double clock = config.clock_mhz / config.dram.clock_mhz;
    activate_ = config.dram.faw / 4 * clock /
                static_cast<double>(config.dram.channels * config.dram.pseudo);
    page_ = static_cast<double>(config.dram.page);
    beat_ = static_cast<double>(config.dram.beat);
    interleave_ = config.dma.interleave;
    if (config.dram.hash == lw::npu::ChannelHash::kNone) period_ *= config.dram.channels;
    period_ *= interleave_;
  }

  Transfer box(const Tensor& tensor, const std::vector<int64_t>& extents) const {
    return box(tensor.type, tensor.shape, extents);
  }
  Transfer box(Type type, const std::vector<int64_t>& shape,
               const std::vector<int64_t>& extents) const {
    int64_t run = size_of(type), stride = 0, size = run;
    double runs = 1;
    bool contiguous = true;
    for (size_t d = extents.size(); d-- > 0;) {
      const int64_t extent = std::min(extents[d], shape[d]);
      if (contiguous)
        run *= extent;
      else
        runs *= static_cast<double>(extent);
      if (!contiguous && stride == 0 && extent > 1) stride = size;
      contiguous = contiguous && extents[d] >= shape[d];
      size *= shape[d];
    }
    return runs_of(run, runs, stride);
  }

  // `stride`: bytes from a run to the next.
  Transfer runs_of(int64_t bytes, double runs, int64_t stride) const {
    const double run = static_cast<double>(bytes);
    Transfer transfer;
    transfer.bytes = run * runs;
    transfer.run = run;
    if (run > kMostRun) transfer.parts = std::ceil(run / kPart);
    if (!std::isfinite(peak_)) return transfer;
    const double beats = paged_ ? std::ceil(run / beat_) * beat_ : run;
    const double rows = paged_ ? std::max(runs, transfer.bytes / page_) : 0;
    transfer.cycles =
        std::max(beats * runs / peak_, rows * activate_) / (runs > 1 ? used(bytes, stride) : 1);
    return transfer;
  }

 private:
  // The share of the channels that runs at the stride lie in: they begin at multiples of what it
  // has in common with the bytes after which channels repeat.
  double used(int64_t run, int64_t stride) const {
    const double apart = static_cast<double>(std::gcd(stride, period_));
    const double across = static_cast<double>(interleave_ + run - std::gcd(run, interleave_));
    return std::min(1.0, across / apart);
  }

  double peak_, activate_ = 0, page_ = 1, beat_ = 1;
  int64_t interleave_ = 1, period_ = 1;
  bool paged_;
};

// What the vector engine does for a box: operations, and the cycles of their vectors. And what one
// of its operands is in DRAM.
struct VectorWork {
  double operations = 0, cycles = 0;
};
VectorWork work_of(const lw::npu::Config& config, const VectorCode& code,
                   const std::vector<int64_t>& box);
Transfer operand_of(const Dram& dram, const Program& program, const VectorValue& value,
                    const std::vector<int64_t>& box);

}  // namespace lw::cost::npu
