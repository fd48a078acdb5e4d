// How fast the NPU is simulated, on one core: instructions and requests to DRAM a second, and
// layers of ResNet-50 from a plan to cycles. Prints the figures beside the project's bars; the best
// of five runs.
//   lw_npu_speed
#include <cstdio>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/npu/programs/gemm.h"
#include "src/npu/timing/timing.h"

namespace lw::npu {
namespace {

struct Case {
  const char *name, *config;
  GemmPlan plan;
};

double best_seconds(const Config& config, const Program& program, Timing* timing) {
  double best = 1e9;
  for (int round = 0; round < 5; ++round) {
    const double begin = now();
    absl::StatusOr<Timing> result = simulate(config, program);
    best = std::min(best, now() - begin);
    CHECK(result.ok() && result->ending == Ending::kDone);
    *timing = *std::move(result);
  }
  return best;
}

bool line(const char* what, double value, const char* unit, double bar, bool at_least) {
  const bool met = at_least ? value >= bar : value <= bar;
  std::printf("  %-46s %10.2f %-12s bar %6.1f   %s\n", what, value, unit, bar,
              met ? "met" : "missed");
  return met;
}

// A program that is all instructions, and one that is all requests.
bool rates() {
  bool met = true;
  const Config edge = *find_config("edge16"), mid = *find_config("mid32");
  Timing timing;
  const Program folds =
      *make_gemm(edge, {1024, 1024, 1024, 64, 64, 512, edge.mx.rows, false, Dtype::kI8});
  double seconds = best_seconds(edge, folds, &timing);
  std::printf("edge16, 1024 x 1024 x 1024: %zu instructions, %d requests, %.2f ms\n", folds.size(),
              int(timing.chunks), 1e3 * seconds);
  met &= line("instructions", folds.size() / seconds / 1e6, "million/s", 10, true);
  Program copies;
  for (int i = 0; i < 4000; ++i) {
    Ld ld;                                 // of 64 rows that do not touch, in 512 KiB of DRAM
    ld.dram = (i % 16) * 32768;
    ld.n0 = 256;
    ld.n1 = 64;
    ld.dstr1 = 512;
    ld.lstr1 = 256;
    copies.push_back({ld});
  }
  seconds = best_seconds(mid, copies, &timing);
  std::printf("mid32, copies: %d requests, %.2f ms\n", int(timing.chunks), 1e3 * seconds);
  met &= line("requests", timing.chunks / seconds / 1e6, "million/s", 10, true);
  return met;
}

// From a plan to cycles: what a tuner waits for.
bool layers() {
  bool met = true;
  const Case cases[] = {
      {"c2 1x1 3136 x 64 x 256", "edge16", {3136, 64, 256, 64, 64, 256, 16, false, Dtype::kI8}},
      {"c4 1x1 784 x 256 x 512", "mid32", {784, 256, 512, 128, 128, 512, 32, false, Dtype::kI8}},
      {"c5 3x3 49 x 512 x 4608", "mid32", {49, 512, 4608, 32, 128, 1536, 32, false, Dtype::kI8}},
      {"c4 1x1 784 x 256 x 512", "big128", {784, 256, 512, 256, 256, 512, 128, false, Dtype::kI8}},
  };
  for (const Case& one : cases) {
    const Config config = *find_config(one.config);
    double best = 1e9;
    size_t instructions = 0;
    for (int round = 0; round < 5; ++round) {
      const double begin = now();
      const absl::StatusOr<Program> program = make_gemm(config, one.plan);
      if (!program.ok()) {
        std::printf("%s: %s\n", one.name, std::string(program.status().message()).c_str());
        return false;
      }
      CHECK(simulate(config, *program).ok());
      best = std::min(best, now() - begin);
      instructions = program->size();
    }
    std::printf("%s, %s: %zu instructions\n", one.config, one.name, instructions);
    met &= line("plan to cycles", 1e3 * best, "ms", 10, false);
  }
  return met;
}

}  // namespace
}  // namespace lw::npu

int main() {
  const bool rates = lw::npu::rates();
  const bool layers = lw::npu::layers();
  return rates && layers ? 0 : 1;
}
