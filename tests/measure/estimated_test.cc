// The Measurer of a GPU that is not here: what it builds, judges and says of times.
#include "src/measure/cuda/estimated.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/steps.h"
#include "schedules/targets/target.h"
#include "src/kernel/groups.h"
#include "src/lower/lower.h"
#include "tests/support/parsed_program.h"

namespace lw {
namespace {

constexpr char kProduct[] = R"(
  in A: bf16[200, 96]
  in B: bf16[96, 104]
  out C[i: 200, j: 104] = sum[k: 96](cast(f32, A[i, k]) * cast(f32, B[k, j])))";

constexpr char kTiles[] = R"(matrix_tile(C, i, j, k; 32, 32, 16)
matrix_groups(C, i.0, j.0; 1, 2)
split(C, k.0; 2, 1)
reorder(C, i.0.0, j.0.0, i.0.1, j.0.1, k.0.0, k.0.1; 0)
parallel(C; 0, 2)
items(C; 1, 2)
stage(C, A; 3, -1, 0)
share(A.copy; 3)
stage(C, B; 3, -1, 0)
share(B.copy; 1)
)";

class EstimatedTest : public testing::Test {
 protected:
  EstimatedTest()
      : program_(std::make_shared<const Program>(parsed(kProduct))),
        target_(std::make_shared<const Target>(*find_target("nvidia_sm80"))) {}

  std::shared_ptr<Kernel> kernel() const {
    const Nest start = make_nest(program_, target_, 1);
    const absl::StatusOr<Nest> nest = replay(start, *parse_trace(kTiles));
    EXPECT_TRUE(nest.ok()) << nest.status();
    absl::StatusOr<Kernel> lowered = lower(*nest);
    EXPECT_TRUE(lowered.ok()) << lowered.status();
    return std::make_shared<Kernel>(*std::move(lowered));
  }

  Outcome outcome_of(std::shared_ptr<const Kernel> kernel, double draft_us) {
    const std::unique_ptr<Measurer> measurer = make_estimating_measurer(*program_, *target_, {});
    EXPECT_EQ(measurer->time_kind(), TimeKind::kEstimated);
    Candidate candidate;
    candidate.ticket = 7;
    candidate.kernel = std::move(kernel);
    candidate.draft_us = draft_us;
    measurer->submit({candidate});
    std::vector<Outcome> outcomes;
    while (outcomes.empty()) outcomes = measurer->poll(10);
    EXPECT_EQ(outcomes.size(), 1u);
    EXPECT_EQ(outcomes[0].ticket, 7);
    return outcomes[0];
  }

  std::shared_ptr<const Program> program_;
  std::shared_ptr<const Target> target_;
};

// Takes out the n-th of these; whether there was one.
bool take_out(std::vector<Stmt>& list, Op op, int* n) {
  for (size_t i = 0; i < list.size(); ++i) {
    Stmt& s = list[i];
    if (s.kind == Stmt::Kind::kOp && s.op == op && (*n)-- == 0) {
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
      return true;
    }
    if (take_out(s.body, op, n) || take_out(s.otherwise, op, n)) return true;
  }
  return false;
}

TEST_F(EstimatedTest, WhatIsRightHasItsDraftAsTime) {
  const Outcome outcome = outcome_of(kernel(), 12.5);
  EXPECT_EQ(outcome.verdict, Verdict::kOk) << outcome.detail;
  EXPECT_TRUE(outcome.verified) << outcome.detail;
  EXPECT_EQ(outcome.time_us, 12.5);
  EXPECT_EQ(outcome.time_kind, TimeKind::kEstimated);
  EXPECT_THAT(outcome.environment, testing::HasSubstr("\"estimated\":true"));
}

TEST_F(EstimatedTest, RacesAreWrongResults) {
  ASSERT_TRUE(has_op(kernel()->body, Op::kBarrier));
  const std::shared_ptr<Kernel> racing = kernel();
  int first = 0;
  ASSERT_TRUE(take_out(racing->body, Op::kBarrier, &first));
  const Outcome outcome = outcome_of(racing, 12.5);
  EXPECT_EQ(outcome.verdict, Verdict::kWrongResult);
  EXPECT_FALSE(outcome.verified);
  EXPECT_THAT(outcome.detail, testing::HasSubstr("race for "));
}

TEST_F(EstimatedTest, WrongSumsAreWrongResults) {
  const std::shared_ptr<Kernel> lacking = kernel();
  int first = 0;
  ASSERT_TRUE(take_out(lacking->body, Op::kMatrixProduct, &first));
  const Outcome outcome = outcome_of(lacking, 12.5);
  EXPECT_EQ(outcome.verdict, Verdict::kWrongResult);
  EXPECT_FALSE(outcome.verified);
}

TEST_F(EstimatedTest, WithoutAnEstimateThereIsNoTime) {
  const Outcome outcome = outcome_of(kernel(), 0);
  EXPECT_EQ(outcome.verdict, Verdict::kBuildError);
}

}  // namespace
}  // namespace lw
