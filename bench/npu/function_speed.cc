// How fast programs are executed on values, on one core: products of tiles, and layers with and
// without the detector of races, beside the project's bar of 10 GMAC/s. The best of five runs.
//   lw_npu_function_speed
#include <cstdio>
#include <functional>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/rng.h"
#include "src/npu/function/function.h"
#include "src/npu/function/product.h"
#include "src/npu/programs/gemm.h"

namespace lw::npu {
namespace {

double best_seconds(const std::function<void()>& work) {
  double best = 1e9;
  for (int round = 0; round < 5; ++round) {
    const double begin = now();
    work();
    best = std::min(best, now() - begin);
  }
  return best;
}

void tiles() {
  std::printf("products of i8 tiles\n");
  Rng rng(1);
  for (const auto& [m, k, n] : {std::array{64, 16, 16}, {64, 32, 32}, {128, 128, 128}}) {
    std::vector<uint8_t> bytes(1 << 16);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng.next());
    const Weights weights = pack_weights(Dtype::kI8, k, n, bytes.data(), n, 1);
    Rows rows;
    clear_rows(Dtype::kI8, m, k, &rows);
    for (int r = 0; r < m; ++r) set_row(Dtype::kI8, r, bytes.data() + r * k, &rows);
    std::vector<uint32_t> acc(m * n);
    const int repeats = 200000000 / (m * k * n);
    const double seconds = best_seconds([&] {
      for (int i = 0; i < repeats; ++i) multiply(rows, 0, m, weights, n, true, acc.data(), n);
    });
    std::printf("  %3d x %3d x %3d  %6.1f GMAC/s  bar 10\n", m, k, n,
                1e-9 * m * k * n * repeats / seconds);
  }
}

void layer(const char* name, const char* machine, const GemmPlan& plan) {
  const Config config = *find_config(machine);
  const Program program = *make_gemm(config, plan);
  std::vector<Span> spans;
  TimingOptions timing_options;
  timing_options.timeline = &spans;
  const double timed = best_seconds([&] {
    spans.clear();
    CHECK(simulate(config, program, timing_options).ok());
  });
  spans.clear();
  const Timing timing = *simulate(config, program, timing_options);
  std::vector<uint8_t> dram((plan.m + plan.n) * plan.k * 2 + plan.m * plan.n * 2 + (1 << 16), 3);
  Memory memory = *make_memory(config, {{0, dram}});
  const auto executed = [&](bool races) {
    FunctionOptions options;
    options.races = races;
    return best_seconds([&] {
      const auto report = execute(config, program, timing, spans, &memory, options);
      CHECK(report.ok() && report->status == FunctionStatus::kOk);
    });
  };
  const double values = executed(false), all = executed(true);
  const double macs = double(plan.m) * plan.n * plan.k;
  std::printf("%s, %s: %zu instructions\n", machine, name, program.size());
  std::printf("  time %.2f ms, values %.2f ms (%.1f GMAC/s), races %.2f ms\n", 1e3 * timed,
              1e3 * values, 1e-9 * macs / values, 1e3 * (all - values));
}

}  // namespace
}  // namespace lw::npu

int main() {
  using namespace lw::npu;
  tiles();
  layer("c2 1x1 3136 x 64 x 256", "edge16", {3136, 64, 256, 64, 64, 256, 64, false, Dtype::kI8});
  layer("c4 1x1 784 x 256 x 512", "mid32", {784, 256, 512, 128, 128, 512, 128, false, Dtype::kI8});
  layer("c5 3x3 49 x 512 x 4608", "mid32", {49, 512, 4608, 49, 128, 1152, 49, false, Dtype::kI8});
  layer("c4 1x1 784 x 256 x 512", "big128", {784, 256, 512, 256, 256, 512, 256, false, Dtype::kI8});
  layer("c4 1x1 784 x 256 x 512, bf16", "big128",
        {784, 256, 512, 256, 256, 512, 256, false, Dtype::kBf16});
  layer("1024 x 1024 x 1024", "edge16", {1024, 1024, 1024, 64, 64, 512, 16, false, Dtype::kI8});
}
