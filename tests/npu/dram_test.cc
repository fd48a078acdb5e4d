// Gate V3: DRAM alone, asked for strided runs, beside Ramulator2.
#include <algorithm>
#include <map>
#include <numeric>

#include "gtest/gtest.h"
#include "src/base/rng.h"
#include "src/npu/timing/dma.h"
#include "tests/npu/configs.h"
#include "tests/npu/reference.h"

namespace lw::npu {
namespace {

// Cycles of reading `total` bytes in runs at a stride.
double read(const Config& config, int64_t total, int64_t run, int64_t stride) {
  Dram dram(config);
  Dma dma(1, config.dma);
  const int64_t runs = total / run;
  Copy copy;
  copy.n0 = std::min<int64_t>(run, 32768);
  // A run longer than a descriptor's field is some that touch.
  const int64_t pieces = run / copy.n0;
  Ticks done = 0;
  int64_t left = runs;
  uint64_t at = 0;
  while (left > 0) {
    const int64_t now = std::min<int64_t>(left, 4095);
    copy.dram = at;
    copy.n1 = pieces;
    copy.dstr1 = copy.n0;
    copy.n2 = now;
    copy.dstr2 = static_cast<uint32_t>(stride);
    dma.take(0, copy, dram.chunk_bytes(), std::max<Ticks>(0, dma.ready()));
    while (!dma.step(&dram)) {
    }
    done = dma.finished.done;
    left -= now;
    at += now * stride;
  }
  return to_cycles(done);
}

// Values within `tie` of the least of them are equal: 12 of DDR4's 21 differ by 1.5 % at most,
// which is where in their time refreshes fell.
std::vector<double> ranks(const std::vector<double>& values, double tie) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> rank(values.size());
  for (size_t i = 0; i < order.size();) {  // they share the mean of their places
    size_t end = i;
    while (end < order.size() && values[order[end]] <= values[order[i]] * (1 + tie)) ++end;
    for (size_t j = i; j < end; ++j) rank[order[j]] = (i + end - 1) / 2.0;
    i = end;
  }
  return rank;
}

double spearman(const std::vector<double>& a, const std::vector<double>& b, double tie) {
  const std::vector<double> x = ranks(a, tie), y = ranks(b, tie);
  const double mean = (x.size() - 1) / 2.0;
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xy / std::sqrt(xx * yy);
}

TEST(DramPatterns, AreAsFastAsRamulators) {
  const std::map<std::string, std::string> profiles = {{"HBM2.yaml", "ramulator_hbm2"},
                                                       {"DDR4.yaml", "ramulator_ddr4"}};
  for (const auto& [theirs, ours] : profiles) {
    const Config config = config_of(ours);
    Errors errors;
    std::vector<double> all, all_reference;
    for (const Row& row : read_table("ramulator2_dma_patterns.csv")) {
      if (row.at("config") != theirs) continue;
      const int64_t total = whole(row, "total_bytes"), stride = whole(row, "stride_bytes");
      // The reference rounds a run up to its requests and reads `total` bytes in whole ones.
      const int64_t run = std::max(whole(row, "run_bytes"), whole(row, "req_bytes"));
      const double cycles = read(config, total, run, stride);
      const double reference = whole(row, "dram_cycles");
      const std::string name = theirs + " " + row.at("run_bytes") + " @ " + row.at("stride_bytes");
      if (prints_rows()) {
        std::printf("  %-28s %9.0f %9.0f %+6.1f %%\n", name.c_str(), reference, cycles,
                    100 * (cycles / reference - 1));
      }
      errors.add(cycles, reference, name);
      all.push_back(cycles);
      all_reference.push_back(reference);
    }
    const double rho = spearman(all, all_reference, .02);
    std::printf("%s: %d patterns, MAPE %.2f %%, max %.2f %% (%s), Spearman %.4f (%.4f "
                "without ties)\n", theirs.c_str(),
                errors.count, 100 * errors.mean(), 100 * errors.worst, errors.worst_row.c_str(),
                rho, spearman(all, all_reference, 0));
    EXPECT_GE(errors.count, 18);
    EXPECT_LE(errors.mean(), .08);
    EXPECT_LE(errors.worst, .15) << errors.worst_row;
    EXPECT_GE(rho, .98);
  }
}

TEST(Chunks, CoverEachByteOnceAndCrossNoBoundary) {
  Rng rng(7);
  for (int round = 0; round < 300; ++round) {
    const int64_t n0 = 1 + rng.below(700), n1 = 1 + rng.below(5), n2 = 1 + rng.below(4);
    // Often runs that touch.
    const int64_t stride1 = rng.below(2) ? n0 : n0 + rng.below(300);
    const int64_t stride2 = rng.below(2) ? n1 * stride1 : n1 * stride1 + rng.below(1000);
    const uint64_t start = rng.below(5000);
    const int64_t most = int64_t{32} << rng.below(6);
    std::map<uint64_t, int> bytes;
    for (Chunks chunks(start, n0, n1, n2, stride1, stride2, most); !chunks.empty();) {
      const Chunks::Chunk one = chunks.next();
      ASSERT_GT(one.bytes, 0);
      ASSERT_EQ(one.address / most, (one.address + one.bytes - 1) / most);
      for (int64_t i = 0; i < one.bytes; ++i) ++bytes[one.address + i];
    }
    int64_t count = 0;
    for (int64_t i2 = 0; i2 < n2; ++i2) {
      for (int64_t i1 = 0; i1 < n1; ++i1) {
        for (int64_t i0 = 0; i0 < n0; ++i0) {
          ASSERT_EQ(bytes[start + i2 * stride2 + i1 * stride1 + i0], 1);
          ++count;
        }
      }
    }
    ASSERT_EQ(static_cast<int64_t>(bytes.size()), count);
  }
}

// However slow a port or a command bus is, and however few the chunks: nothing is faster than the
// peak, of which bounds are made.
TEST(Dram, IsNeverFasterThanItsPeak) {
  for (const auto& [port, command] : {std::pair{.25, 0.}, {32., 100.}, {.25, 100.}, {32., 0.}}) {
    Config config = config_of("mid32");
    config.dma.port_bytes = port;
    config.dram.command = command;
    for (const int64_t bytes : {32, 64, 512, 4096}) {
      EXPECT_GE(read(config, bytes, bytes, bytes), bytes / peak_bytes_per_cycle(config))
          << port << " " << command << " " << bytes;
    }
  }
}

}  // namespace
}  // namespace lw::npu
