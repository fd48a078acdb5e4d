// How far the simulator is from figures that others have published but that may not be shipped: a
// user brings their table (gates V4 and V5; docs/npu.md has the formats). Pure functions.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "src/npu/compare/table.h"
#include "src/npu/config.h"

namespace lw::npu {

// Cycles that the array alone takes for a product, weight stationary, simulated: a load of weights
// and an MM for each fold, operands in SPM. kInvalidArgument: it has more than 2^22 folds.
// REQUIRES: m, n, k from 1 to 65535.
absl::StatusOr<int64_t> array_cycles(const Config& config, int64_t m, int64_t n, int64_t k);

// Times of products on a TPU (V4). Of rank and line alone: what a time has beside the array's is
// not modelled.
struct TpuComparison {
  int64_t rows = 0, small = 0;             // fitted; left out, an extent being below 128
  int64_t least = 0, most = 0;             // of the extents that were fitted
  double r2 = 0;                           // of the line through (cycles, time)
  double per_cycle = 0, at_zero = 0;       // of that line, in the unit of the times
  double rank = 0;                         // Spearman's correlation
  double least_r2 = 0, least_rank = 0;     // what is aimed at for such extents; 0: nothing

  // To three digits, which what is aimed at has.
  bool met() const { return r2 >= least_r2 - .0005 && rank >= least_rank - .0005; }
};
// Columns: m, n, k, and the one that is called `time`, in any unit.
absl::StatusOr<TpuComparison> compare_tpu(const Config& config, const Table& table,
                                          const std::string& time);

// NVDLA's sheet of a network (V5): its cycles of each layer, by multipliers and by DRAM.
struct NvdlaComparison {
  int64_t layers = 0, equal_mac = 0, equal_dram = 0;
  std::string others;                      // a line for each layer whose cycles are not equal
  double cycles = 0, theirs = 0;           // sums of the larger of the two
  double plain_cycles = 0;                 // `cycles`, were no layer Winograd's

  // Of 53 layers of ResNet-50 one, conv1, is computed in another mode.
  bool met() const { return equal_mac >= 0.95 * layers && equal_dram >= 0.95 * layers; }
};
// Columns: layer, c, k, r, s, p, q, winograd, dram_kb (of 1000 bytes), mac_cycles, dram_cycles.
absl::StatusOr<NvdlaComparison> compare_nvdla(const Config& config, const Table& table);

std::string comparison_text(const Config& config, const TpuComparison& c);
std::string comparison_text(const Config& config, const NvdlaComparison& c);

}  // namespace lw::npu
