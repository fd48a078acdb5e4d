// What measurements come to, in a search as in the allocation of its budget.
#include "src/search/progress.h"

#include "gtest/gtest.h"
#include "src/search/allocate.h"

namespace lw {
namespace {

Measurement taken(const std::string& trace, double us, const std::string& source = "draft") {
  Measurement m;
  m.trace = trace;
  m.source = source;
  m.time_us = us, m.samples_us = {us};
  m.verified = true;
  return m;
}

Measurement failed(const std::string& trace, Verdict verdict) {
  Measurement m;
  m.trace = trace;
  m.source = "finalist";
  m.verdict = verdict;
  return m;
}

TEST(Progress, CountsTrialsTheZeroTrialAndTheIncumbent) {
  SearchProgress progress;
  EXPECT_TRUE(progress.take(taken("z", 9, "zero")));
  EXPECT_TRUE(progress.has_zero && progress.zero_verified);
  EXPECT_TRUE(progress.take(taken("a", 5)));
  EXPECT_FALSE(progress.take(taken("b", 6)));
  EXPECT_FALSE(progress.take(failed("c", Verdict::kWorkerLost)));
  Measurement unverified = taken("d", 1);
  unverified.verified = false;
  EXPECT_FALSE(progress.take(unverified));
  EXPECT_TRUE(progress.take(taken("a", 4, "finalist")));
  EXPECT_EQ(progress.trials, 3);
  EXPECT_EQ(progress.failed, 0);
  EXPECT_EQ(progress.zero_us, 9);
  EXPECT_EQ(progress.best_us, 4);
}

// Whatever asks: a search, and the allocation, which would else take the workload for a flat one.
TEST(Progress, ALeaderThatFallsGivesWayToTheBestOfTheOthers) {
  SearchProgress progress;
  WorkloadState state;
  for (const Measurement& m : {taken("a", 10), taken("b", 8), taken("c", 1),
                               failed("c", Verdict::kWrongResult), taken("c", 1)}) {
    progress.take(m);
    record(state, m);
  }
  EXPECT_EQ(progress.best_us, 8);
  EXPECT_EQ(state.best_us, 8);
  EXPECT_EQ(state.failed, 1);
  ASSERT_EQ(state.history.size(), 4u);
  EXPECT_EQ(state.history.back().best_us, 8);
  EXPECT_TRUE(progress.take(taken("d", 7)));
  record(state, taken("d", 7));
  EXPECT_EQ(state.history.back().best_us, 7) << "a gain, though slower than what fell";
}

TEST(Progress, AnotherKindsTimeIsATrialAndNoMore) {
  SearchProgress progress;
  progress.take(taken("a", 10));
  Measurement estimate = taken("b", 1, "zero"), trial = taken("c", 1);
  estimate.time_kind = trial.time_kind = TimeKind::kEstimated;
  EXPECT_FALSE(progress.take(estimate));
  EXPECT_FALSE(progress.take(trial));
  EXPECT_EQ(progress.trials, 2);
  EXPECT_EQ(progress.best_us, 10);
  EXPECT_FALSE(progress.has_zero);
}

// A hint that nobody confirmed, and what was annulled: also where it was the zero-trial answer.
TEST(Progress, WhatIsNotPooledTellsNothing) {
  SearchProgress progress;
  Measurement hint = taken("a", 1), annulled = taken("z", 2, "zero");
  hint.counts = false;
  annulled.annulled = annulment_text({"boss", "a glitch", 1});
  EXPECT_FALSE(progress.take(hint));
  EXPECT_FALSE(progress.take(annulled));
  progress.take(taken("z", 20, "zero"));
  EXPECT_EQ(progress.trials, 0);
  EXPECT_EQ(progress.zero_us, 20);
  EXPECT_EQ(progress.best_us, 20);
}

}  // namespace
}  // namespace lw
