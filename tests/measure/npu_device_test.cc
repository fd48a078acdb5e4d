// The simulated NPU as a device: what only it can find, and what it says beside a time. (What all
// devices promise: device_conformance_test.cc.)
#include "src/measure/npu/npu_device.h"

#include <gmock/gmock.h>

#include "src/measure/environment.h"
#include "src/measure/measure_client.h"
#include "src/npu/timing/timing.h"
#include "tests/measure/measurer_fixture.h"
#include "tests/measure/npu_modules.h"

namespace lw {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class NpuDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<Measurer>> made = make_npu_measurer(quick());
    ASSERT_TRUE(made.ok()) << made.status();
    measurer_ = *std::move(made);
  }
  Outcome one(const std::string& name, bool verify = true) {
    Candidate c = candidate(7, npu_kernel(name));
    c.verify = verify;
    if (!verify) c.incumbent_us = 1e-4;
    measurer_->submit({c});
    return collect(*measurer_, 1)[7];
  }
  // The bad one, then the good one on the same device.
  Outcome bad_then_good(const std::string& name) {
    const Outcome bad = one(name);
    EXPECT_FALSE(bad.verified);
    EXPECT_TRUE(bad.samples_us.empty());
    const Outcome good = one("good");
    EXPECT_TRUE(good.verified) << good.detail;
    return bad;
  }
  void expect_wrong(const std::string& name, const std::string& begin, const std::string& part) {
    const Outcome bad = bad_then_good(name);
    EXPECT_EQ(bad.verdict, Verdict::kWrongResult) << bad.detail;
    EXPECT_THAT(bad.detail, StartsWith(begin));
    EXPECT_THAT(bad.detail, HasSubstr(part));
    EXPECT_THAT(bad.detail, ::testing::Not(HasSubstr("\n")));
  }

  std::unique_ptr<Measurer> measurer_;
};

TEST_F(NpuDeviceTest, SaysTheSimulatorsTimeAndWhatItCounted) {
  const Outcome outcome = one("good");
  const npu::Module module = npu_module("good");
  const npu::Timing timing = npu::simulate(module.config, module.program).value();
  EXPECT_EQ(outcome.time_us, timing.ns / 1000);
  EXPECT_THAT(outcome.environment, StartsWith("{\"simulated\":true,\"simulator\":\"npu\","));
  EXPECT_THAT(outcome.environment, HasSubstr("\"isolation\":{"));
  std::map<std::string, double> counters;
  for (const auto& [name, value] : parse_environment(outcome.environment).counters) {
    counters[name] = value;
  }
  EXPECT_EQ(counters["cycles"], timing.cycles);
  EXPECT_EQ(counters["macs"], 20 * 32 * 16);
  EXPECT_EQ(counters["bytes_read"], 320 + 512);
  EXPECT_EQ(counters["bytes_written"], 2560);
  EXPECT_EQ(counters["busy.MX"], timing.busy[1]);
  EXPECT_EQ(counters["stall.ST.token"], timing.stalls[3].token);
  EXPECT_EQ(counters["bound.dma"], timing.bounds.dma);
  EXPECT_EQ(counters["efficiency"], timing.efficiency);
}

TEST_F(NpuDeviceTest, ARaceIsAWrongResultThoughTheDataAreRight) {
  expect_wrong("race", "race: ", "mx.ldw");
}
TEST_F(NpuDeviceTest, ADeadlockIsFoundWithoutWaiting) {
  const Outcome bad = bad_then_good("deadlock");
  EXPECT_EQ(bad.verdict, Verdict::kWrongResult);
  EXPECT_THAT(bad.detail, StartsWith("deadlock: "));
}
TEST_F(NpuDeviceTest, TooManyTokensAreAWrongResult) {
  expect_wrong("overflow", "semaphore overflow: instruction ", "(ld)");
}
TEST_F(NpuDeviceTest, AWriteBesideItsTensorIsOutOfBounds) {
  expect_wrong("beside", "bounds: instruction 6 (st ", "writes DRAM [12288, 14852)");
}
TEST_F(NpuDeviceTest, AProgramThatDoesNothingIsWrong) {
  expect_wrong("empty", "the program does nothing", "");
  expect_wrong("idle", "D[", "");
}

TEST_F(NpuDeviceTest, WhatTheMachineRefusesIsTheBuildsFault) {
  const std::pair<const char*, const char*> rows[] = {
      {"unaligned", "loc = 1025: a multiple of spm.align (16)"},
      {"corrupt", "NPU module: cut short in its "},
      {"other", "NPU module: 511 bytes for input B, which has 512"}};
  for (const auto& [name, detail] : rows) {
    const Outcome bad = bad_then_good(name);
    EXPECT_EQ(bad.verdict, Verdict::kBuildError) << name;
    EXPECT_THAT(bad.detail, HasSubstr(detail));
  }
}

// Its values are looked at where it is to be believed; that it ends, always.
TEST_F(NpuDeviceTest, WhatIsBehindIsTimedAndNotRun) {
  const Outcome race = one("race", /*verify=*/false);
  EXPECT_EQ(race.verdict, Verdict::kOk) << race.detail;
  EXPECT_FALSE(race.verified);
  EXPECT_GT(race.time_us, 0);
  EXPECT_EQ(one("deadlock", /*verify=*/false).verdict, Verdict::kWrongResult);
}

// Whoever was done first.
TEST_F(NpuDeviceTest, OutcomesComeBatchByBatch) {
  std::vector<std::vector<Candidate>> batches(2);
  for (int i = 0; i < 12; ++i) {
    batches[i / 6].push_back(candidate(i, npu_kernel(i % 3 == 0 ? "slow" : "good")));
    batches[i / 6].back().verify = i % 6 == 0;
    batches[i / 6].back().incumbent_us = 1e-4;
  }
  for (const std::vector<Candidate>& batch : batches) measurer_->submit(batch);
  for (int first : {0, 6}) {
    std::vector<Outcome> outcomes;
    while (outcomes.empty()) outcomes = measurer_->poll(60);
    ASSERT_EQ(outcomes.size(), 6u);
    for (int i = 0; i < 6; ++i) EXPECT_EQ(outcomes[static_cast<size_t>(i)].ticket, first + i);
  }
}

// Whatever was the best when it was asked for.
TEST_F(NpuDeviceTest, WhatIsBehindTheBestIsNotRun) {
  Candidate slow = candidate(1, npu_kernel("slow")), good = candidate(2, npu_kernel("good"));
  slow.verify = good.verify = false;
  slow.incumbent_us = good.incumbent_us = 1e6;
  measurer_->submit({good});
  EXPECT_TRUE(collect(*measurer_, 1)[2].verified);
  measurer_->submit({slow});
  const Outcome behind = collect(*measurer_, 1)[1];
  EXPECT_EQ(behind.verdict, Verdict::kOk) << behind.detail;
  EXPECT_FALSE(behind.verified);
  slow.verify = true;
  measurer_->submit({slow});
  EXPECT_TRUE(collect(*measurer_, 1)[1].verified);
}

// Which ones, follows from the kernel.
TEST_F(NpuDeviceTest, OneInAHundredOfWhatIsBehindIsRun) {
  std::vector<Candidate> run;
  for (int i = 0; i < 2000; ++i) {
    std::string text = npu_kernel("good");
    text.replace(text.find("packed=0"), 8, "packed=" + std::to_string(i));
    Candidate behind = candidate(i, text);
    behind.verify = false;
    behind.incumbent_us = 1e-4;
    if (MeasureClient::run_below_us(behind) > 1) run.push_back(behind);
  }
  ASSERT_GT(run.size(), 5u);
  EXPECT_LT(run.size(), 60u);
  measurer_->submit({run[0]});
  const Outcome outcome = collect(*measurer_, 1)[run[0].ticket];
  EXPECT_TRUE(outcome.verified) << outcome.detail;
}

TEST_F(NpuDeviceTest, NeedsNoQuietHost) { EXPECT_FALSE(measurer_->wants_quiet()); }

}  // namespace
}  // namespace lw
