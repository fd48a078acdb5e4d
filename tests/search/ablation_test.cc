// The ablation's arithmetic, and that each of its variants runs and differs.
#include "bench/ablation.h"

#include <cmath>

#include "gtest/gtest.h"
#include "schedules/targets/target.h"
#include "src/api/task.h"
#include "src/base/check.h"
#include "src/expr/language/text.h"
#include "src/search/null_measurer.h"

namespace lw {
namespace {

AblationRun run_of(const char* variant, uint64_t seed, std::vector<CurvePoint> curve) {
  return {"w", variant, seed, std::move(curve)};
}

TEST(Ablation, CountsWhatItTookToComeNear) {
  const std::vector<AblationRun> runs = {
      run_of("warm start", 1, {{1, 1, 20}, {2, 8, 10}}),
      run_of("warm start", 2, {{1, 1, 20}, {4, 16, 10.2}}),
      run_of("warm start", 3, {{3, 12, 10.1}}),
      run_of("random search", 1, {{1, 1, 40}, {9, 60, 20}}),
      run_of("random search", 2, {{5, 30, 10}})};
  const std::vector<AblationRow> rows = ablation_rows(runs, 0.95);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].variant, "warm start");
  EXPECT_EQ(rows[0].reached, 3);
  EXPECT_DOUBLE_EQ(rows[0].seconds.median, 3);
  EXPECT_DOUBLE_EQ(rows[0].seconds.low, 2.5);
  EXPECT_DOUBLE_EQ(rows[0].trials.high, 14);
  EXPECT_EQ(rows[1].reached, 1);
  EXPECT_EQ(rows[1].runs, 2);
  EXPECT_TRUE(std::isinf(rows[1].seconds.median));
  EXPECT_NEAR(rows[1].final_share, std::sqrt(0.5), 1e-12);
  const std::string svg = ablation_svg(rows, "title");
  EXPECT_NE(svg.find("random search"), std::string::npos);
  EXPECT_NE(svg.find("never"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
}

TEST(Ablation, RunsComeBackFromTheirLines) {
  const AblationRun run = run_of("no draft", 7, {{0.5, 0, 12.25, "a\nb"}, {1, 3, 8, "c"}});
  const std::vector<AblationRun> again = parse_runs(to_line(run) + "torn {\n" + to_line(run));
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(to_line(again[1]), to_line(run));
}

TEST(Ablation, CurvesTakeTheTimesFromSideBySide) {
  std::vector<AblationRun> runs = {
      run_of("warm start", 1, {{1, 1, 20, "slow"}, {2, 8, 10, "fast"}}),
      run_of("no draft", 1, {{1, 1, 9, "slow"}})};
  const auto timer = [](const std::string&, const std::vector<std::string>& traces) {
    EXPECT_EQ(traces.size(), 2u);
    return std::vector<double>{traces[0] == "fast" ? 7.0 : 14.0, traces[1] == "fast" ? 7.0 : 14.0};
  };
  ASSERT_TRUE(time_again(runs, timer).ok());
  EXPECT_EQ(runs[0].curve[0].best_us, 14);
  EXPECT_EQ(runs[0].curve[1].best_us, 7);
  EXPECT_EQ(runs[1].curve[0].best_us, 14);
  EXPECT_EQ(time_again(runs, [](const std::string&, const std::vector<std::string>&) {
              return absl::InternalError("no machine");
            }).message(), "no machine");
}

TEST(Ablation, EveryVariantTunes) {
  const absl::StatusOr<Task> task =
      make_task(*load_workload({"matmul", "M=96", "N=130", "K=77"}), "matmul",
                *find_target("x86_avx512"), 1);
  ASSERT_TRUE(task.ok());
  for (const AblationVariant& variant : ablation_variants()) {
    const std::unique_ptr<Store> store = make_memory_store();
    ASSERT_TRUE(put_task(*store, *task).ok());
    const auto measurer = make_null_measurer({});
    SearchOptions options;
    options.trials = 24;
    options.drafts = 200;
    TuneHooks hooks;
    double clock = 0;
    hooks.now = [&clock] { return clock += 0.001; };
    const absl::StatusOr<AblationRun> run =
        run_ablation(task->start(), task->key(), *store, *measurer, variant, options, hooks, "w");
    ASSERT_TRUE(run.ok()) << variant.name << ": " << run.status();
    EXPECT_FALSE(run->curve.empty()) << variant.name;
    EXPECT_EQ(run->variant, variant.name);
  }
}

}  // namespace
}  // namespace lw
