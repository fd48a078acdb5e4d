// A program of the simulated NPU, watched: what a drawing of it is made of.
#include "src/measure/npu/simulation.h"

#include <gmock/gmock.h>

#include "src/npu/timing/timing.h"
#include "tests/measure/npu_modules.h"

namespace lw {
namespace {

absl::StatusOr<Simulation> watch(const std::string& name) {
  Artifact artifact;
  artifact.architecture = kNpuArchitecture;
  artifact.bytes = npu::make_module(npu_module(name)).value();
  return simulate_npu(artifact);
}

TEST(NpuSimulation, SaysWhatEachEngineDoesWhen) {
  const absl::StatusOr<Simulation> seen = watch("good");
  ASSERT_TRUE(seen.ok()) << seen.status();
  const npu::Module module = npu_module("good");
  const npu::Timing timing = npu::simulate(module.config, module.program).value();
  EXPECT_EQ(seen->unit, "cycles");
  EXPECT_EQ(seen->time, timing.cycles);
  EXPECT_EQ(seen->us, timing.ns / 1000);
  EXPECT_DOUBLE_EQ(seen->efficiency(), timing.efficiency);
  ASSERT_EQ(seen->engines.size(), 5u);
  for (size_t e = 0; e < seen->engines.size(); ++e) {
    const Simulation::Engine& engine = seen->engines[e];
    std::vector<double> sums(seen->states.size());
    double before = 0;
    for (const Simulation::Interval& one : engine.intervals) {
      EXPECT_LE(before, one.begin) << engine.name;
      EXPECT_LT(one.begin, one.end);
      EXPECT_LE(one.end, seen->time);
      before = one.end;
      sums[static_cast<size_t>(one.state)] += (one.end - one.begin) / seen->time;
    }
    for (size_t s = 0; s < sums.size(); ++s) EXPECT_NEAR(sums[s], engine.shares[s], 1e-9);
    if (e < npu::kEngines) {
      EXPECT_EQ(engine.name, name_of(static_cast<npu::Engine>(e)));
      EXPECT_NEAR(engine.busy * seen->time, timing.busy[e], 1e-6);
    } else {
      EXPECT_EQ(engine.name, "dispatcher");
      EXPECT_GT(engine.busy, 0);
    }
  }
  EXPECT_GT(seen->engines[1].shares[2], 0) << "MX waits for the loads' tokens";
}

TEST(NpuSimulation, NamesTheLimitsTheLargestFirst) {
  const absl::StatusOr<Simulation> seen = watch("good");
  ASSERT_TRUE(seen.ok()) << seen.status();
  std::vector<std::string> names;
  for (size_t i = 0; i < seen->limits.size(); ++i) {
    names.push_back(seen->limits[i].name);
    if (i > 0) EXPECT_GE(seen->limits[i - 1].time, seen->limits[i].time);
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre("compute", "array", "dma", "vector", "dispatch"));
}

TEST(NpuSimulation, RefusesWhatDoesNotEndAndWhatTheMachineRefuses) {
  EXPECT_EQ(watch("deadlock").status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(watch("unaligned").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(simulate_npu({}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lw
