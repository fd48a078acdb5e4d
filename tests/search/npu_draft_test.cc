// What the analytic model says of products on NPUs beside the simulator.
#include <cmath>

#include "gtest/gtest.h"
#include "cost_model/cost_model.h"
#include "loopwright/program.h"
#include "schedules/steps.h"
#include "src/api/task.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/base/rng.h"
#include "src/lower/lower.h"
#include "src/measure/npu/simulated.h"

namespace lw {
namespace {

Task product(const char* target, int m, int n, int k) {
  const std::string text =
      concat("op product(M = ", m, ", N = ", n, ", K = ", k,
             ") {\n  in A: i8[M, K]\n  in B: i8[K, N] const\n"
             "  out C[i: M, j: N] = sum[k: K](A[i, k] * B[k, j])\n}\n");
  return *make_task(*parse_program(text, "product"), "product", *load_target(target), 1);
}

double simulated(const Task& task, const Nest& nest) {
  return *simulated_us(*task.backend().build(*lower(nest), *task.target()));
}

Nest with(const Task& task, Decision tile, Decision stream) {
  Trace trace = make_space(task.start()).front().steps;
  CHECK(trace.size() == 3);
  trace[0].numbers = std::move(tile);
  trace[2].numbers = std::move(stream);
  return *replay(task.start(), trace);
}

// Rows of results are as long as all channels together: tiles that are narrower than that lie in
// some of them alone.
TEST(NpuDraft, NarrowTilesUseFewChannels) {
  const Task task = product("npu_big128", 784, 512, 128);
  const Nest narrow = with(task, {2, 1, 1, 512}, {0, 1, 1, 2, 0}),
             wide = with(task, {2, 4, 1, 128}, {0, 3, 2, 1, 0});
  EXPECT_GT(simulated(task, narrow), 3 * simulated(task, wide));
  EXPECT_GT(draft_us(narrow), 2.5 * draft_us(wide));
}

// One slot of a holds up the loads of b behind it, and one of b nothing of a.
TEST(NpuDraft, WhatWaitsForItsSlotHoldsUpWhatComesBehind) {
  const Task task = product("npu_edge16", 49, 512, 2048);
  const Decision tile = {2, 12, 20, 32};
  const Nest both = with(task, tile, {0, 2, 2, 1, 0}), of_a = with(task, tile, {0, 1, 2, 1, 0});
  EXPECT_GT(simulated(task, of_a), 1.3 * simulated(task, both));
  EXPECT_GT(draft_us(of_a), 1.3 * draft_us(both));
}

// Phases of a transposed convolution have fewer points and taps than the loops over the largest.
TEST(NpuDraft, KnowsTheSizesOfPhases) {
  for (const char* const target : {"npu_edge16", "npu_mid32", "npu_big128"}) {
    const std::string text =
        "op transposed() {\n  in X: i8[1, 17, 17, 128]\n  in F: i8[3, 3, 128, 128] const\n"
        "  out Y[n: 1, y: 33, x: 33, co: 128] = sum[r: 3, s: 3, ci: 128]("
        "where((y + 1 - r) % 2 == 0 && (x + 1 - s) % 2 == 0, "
        "pad(X[n, (y + 1 - r) / 2, (x + 1 - s) / 2, ci], 0) * F[r, s, ci, co], 0))\n}\n";
    const Task task =
        *make_task(*parse_program(text, "transposed"), "transposed", *load_target(target), 1);
    const Sketch sketch = make_space(task.start()).front();
    Rng rng(5);
    std::vector<Example> examples;
    std::vector<float> scores;
    double ratio = 1;
    for (int i = 0; i < 24; ++i) {
      const absl::StatusOr<Sample> drawn = sample(task.start(), sketch, rng);
      ASSERT_TRUE(drawn.ok()) << drawn.status();
      Example example;
      example.time_us = simulated(task, drawn->nest);
      examples.push_back(example);
      const double draft = draft_us(drawn->nest);
      scores.push_back(static_cast<float>(-draft));
      ratio *= std::pow(draft / example.time_us, 1. / 24);
    }
    EXPECT_GT(evaluate(scores, examples).pairwise, .75) << target;
    EXPECT_GT(ratio, .8) << target;
    EXPECT_LT(ratio, 1.2) << target;
  }
}

// Of two draws it mostly knows the faster one.
TEST(NpuDraft, RanksDraws) {
  for (const auto& [target, least] :
       {std::pair("npu_edge16", .85), std::pair("npu_mid32", .8), std::pair("npu_big128", .7)}) {
    std::vector<Example> examples;
    std::vector<float> scores;
    for (const auto& [m, n, k] : {std::tuple(196, 256, 256), std::tuple(49, 512, 512),
                                  std::tuple(784, 64, 128), std::tuple(128, 128, 300)}) {
      const Task task = product(target, m, n, k);
      const Sketch sketch = make_space(task.start()).front();
      Rng rng(5);
      for (int i = 0; i < 24; ++i) {
        const absl::StatusOr<Sample> drawn = sample(task.start(), sketch, rng);
        ASSERT_TRUE(drawn.ok()) << drawn.status();
        Example example;
        example.group = static_cast<uint64_t>(m);
        example.time_us = simulated(task, drawn->nest);
        examples.push_back(example);
        scores.push_back(static_cast<float>(-draft_us(drawn->nest)));
      }
    }
    const RankingMetrics m = evaluate(scores, examples);
    EXPECT_GT(m.pairwise, least) << target;
    EXPECT_GT(m.peak_at_1, m.random_peak_at_1) << target;
  }
}

}  // namespace
}  // namespace lw
