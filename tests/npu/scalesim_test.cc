// Gate V1: folds that never overlap, and memory that takes no time, are SCALE-Sim v2, row by row.
#include "gtest/gtest.h"
#include "src/base/message.h"
#include "src/npu/programs/gemm.h"
#include "src/npu/timing/timing.h"
#include "tests/npu/reference.h"

namespace lw::npu {
namespace {

TEST(Scalesim, EveryRowIsExact) {
  const std::vector<Row> rows = read_table("scalesim_v2_gemm.csv");
  ASSERT_EQ(rows.size(), 60u);
  for (const Row& row : rows) {
    const absl::StatusOr<Config> config =
        find_config(concat("scalesim", row.at("array"), row.at("dataflow")));
    ASSERT_TRUE(config.ok()) << config.status();
    GemmPlan plan;
    plan.m = plan.tile_m = whole(row, "M");
    plan.n = plan.tile_n = whole(row, "N");
    plan.k = plan.tile_k = whole(row, "K");
    plan.output_stationary = row.at("dataflow") == "os";
    plan.fold_m = plan.m;
    if (plan.output_stationary) {          // few enough blocks for a semaphore
      plan.fold_m = config->mx.rows;
      plan.tile_m = 4 * config->mx.rows;
    }
    const absl::StatusOr<Program> program = make_gemm(*config, plan);
    ASSERT_TRUE(program.ok()) << program.status();
    const absl::StatusOr<Timing> timing = simulate(*config, *program);
    ASSERT_TRUE(timing.ok()) << timing.status();
    EXPECT_EQ(timing->ending, Ending::kDone) << timing->blocked;
    // SCALE-Sim prints the index of its last cycle, which is one less than their number.
    EXPECT_EQ(timing->cycles - 1, whole(row, "scalesim_total_cycles"))
        << row.at("layer") << " " << config->name;
  }
}

}  // namespace
}  // namespace lw::npu
