// ONNXim's GEMM runs (tests/npu/data/onnxim_gemm.csv), replayed with their own tiles. Not
// thread-safe.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "gtest/gtest.h"
#include "src/npu/programs/gemm.h"
#include "src/npu/timing/timing.h"
#include "tests/npu/configs.h"
#include "tests/npu/reference.h"

namespace lw::npu {

inline GemmPlan plan_of(const Row& row, const Config& config) {
  GemmPlan plan;
  plan.m = whole(row, "M");
  plan.n = whole(row, "N");
  plan.k = whole(row, "K");
  plan.tile_m = whole(row, "tile_m");
  plan.tile_n = whole(row, "tile_n");
  plan.tile_k = whole(row, "tile_k");
  plan.fold_m = config.mx.rows;            // ONNXim's loops go in steps of the array's height
  plan.dtype = config.mx.dtypes[0];
  return plan;
}

inline Timing simulate_row(const Row& row, const Config& config) {
  const absl::StatusOr<Program> program = make_gemm(config, plan_of(row, config));
  EXPECT_TRUE(program.ok()) << program.status();
  if (!program.ok()) return {};
  absl::StatusOr<Timing> timing = simulate(config, *program);
  EXPECT_TRUE(timing.ok()) << timing.status();
  if (!timing.ok()) return {};
  EXPECT_EQ(timing->ending, Ending::kDone) << timing->blocked;
  return *std::move(timing);
}

// All rows of one of ONNXim's configurations on one of ours; every bound holds for both.
inline Errors replay(const std::string& theirs, const Config& config) {
  Errors errors;
  for (const Row& row : read_table("onnxim_gemm.csv")) {
    if (row.at("config") != theirs) continue;
    const Timing timing = simulate_row(row, config);
    const std::string name = row.at("M") + "x" + row.at("N") + "x" + row.at("K");
    const double reference = whole(row, "onnxim_cycles");
    EXPECT_LE(timing.bounds.largest(), timing.cycles) << name;
    EXPECT_LE(timing.bounds.mac, reference) << name;
    if (prints_rows()) {
      std::printf("  %-18s %-16s %9.0f %9.0f %+6.1f %%\n", theirs.c_str(), name.c_str(), reference,
                  double(timing.cycles), 100 * (timing.cycles / reference - 1));
    }
    errors.add(timing.cycles, reference, name);
  }
  std::printf("%-18s %3d rows, MAPE %.2f %%, max %.2f %% (%s)\n", theirs.c_str(), errors.count,
              100 * errors.mean(), 100 * errors.worst, errors.worst_row.c_str());
  return errors;
}

}  // namespace lw::npu
