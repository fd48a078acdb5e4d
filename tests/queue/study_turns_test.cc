// How studies share a device: turns by what it does for them, jobs of a slice each.
#include "schedules/targets/target.h"
#include "src/serve/queue/study_turns.h"

#include "src/serve/studies/study_jobs.h"
#include "tests/queue/queue_fixture.h"

namespace lw {
namespace {

using Contender = StudyTurns::Contender;

// Studies that always have a job; each turn is one of their jobs. What the device has done for each.
std::vector<double> share(StudyTurns& turns, std::vector<Contender>& studies,
                          const std::vector<double>& job_s, int count) {
  std::vector<double> got(studies.size());
  std::string prepared;
  for (int i = 0; i < count; ++i) {
    const size_t chosen = turns.order("q", studies, prepared, 0)[0];
    studies[chosen].busy_s += job_s[chosen];
    got[chosen] += job_s[chosen];
    prepared = studies[chosen].study;
  }
  return got;
}

TEST(StudyTurns, EqualsShareEquallyHoweverTheirJobsAreCut) {
  StudyTurns turns;
  std::vector<Contender> studies = {{"a", 0, 0.1}, {"b", 0, 0.1}, {"c", 0, 0.1}};
  const std::vector<double> got = share(turns, studies, {0.1, 1, 0.3}, 1000);
  EXPECT_NEAR(got[0], got[1], 2);
  EXPECT_NEAR(got[0], got[2], 2);
}

TEST(StudyTurns, WhoseCandidatesAreExpensiveTakesATenthOfTheOthersTime) {
  StudyTurns turns;
  std::vector<Contender> studies = {{"cheap", 0, 0.05}, {"slow", 0, 0.2}, {"hostile", 0, 60}};
  const std::vector<double> got = share(turns, studies, {0.5, 0.5, 0.5}, 2000);
  EXPECT_NEAR(got[1] / got[0], 0.25, 0.02);
  EXPECT_NEAR(got[2] / got[0], 0.1, 0.02);
}

TEST(StudyTurns, WhoIsNewOrWasAwayBeginsWhereTheOthersAre) {
  StudyTurns turns;
  std::vector<Contender> studies = {{"a", 0, 0.1}};
  share(turns, studies, {1}, 100);
  studies.push_back({"b", 0, 0.1});
  EXPECT_NEAR(share(turns, studies, {1, 1}, 100)[0], 50, 2);
  std::vector<Contender> alone = {studies[1]};
  share(turns, alone, {1}, 100);
  studies[1] = alone[0];
  EXPECT_NEAR(share(turns, studies, {1, 1}, 100)[0], 50, 2);
}

TEST(StudyTurns, WhatADeviceHasPreparedGoesOnALittle) {
  StudyTurns turns;
  const std::vector<Contender> studies = {{"a", 0, 0.1}, {"b", 0, 0.1}};
  EXPECT_EQ(turns.order("q", studies, "", 0)[0], 0u);
  EXPECT_EQ(turns.order("q", studies, "b", 0)[0], 1u);
  std::vector<Contender> later = studies;
  later[1].busy_s = 0.4;
  EXPECT_EQ(turns.order("q", later, "b", 0)[0], 1u);
  later[1].busy_s = 0.6;
  EXPECT_EQ(turns.order("q", later, "b", 0)[0], 0u);
  EXPECT_EQ(turns.order("another's", later, "b", 0)[0], 1u) << "queues know nothing of each other";
}

TEST(StudyTurns, AJobThatANewStudyFoundRunningCountsInFull) {
  StudyTurns turns;
  std::vector<Contender> studies = {{"hostile", 0, 0.7}};
  turns.order("q", studies, "", 0);
  studies[0].busy_s = 0.7;                 // ends after the other has come
  studies.push_back({"honest", 0, 0, true});
  EXPECT_EQ(turns.order("q", studies, "hostile", 0)[0], 1u) << "who is not known yet goes first";
  studies[1] = {"honest", 6, 0.05};
  EXPECT_EQ(turns.order("q", studies, "hostile", 0)[0], 1u);
  studies[1].busy_s = 8;
  EXPECT_EQ(turns.order("q", studies, "honest", 0)[0], 0u);
}

TEST(StudyTurns, WhoIsAwayWhileItsOnlyJobRunsIsChargedForIt) {
  StudyTurns turns;
  std::vector<Contender> studies = {{"cheap", 0, 0.05}, {"hostile", 0, 1}};
  turns.order("q", studies, "", 0);
  const std::vector<Contender> alone = {studies[0]};
  turns.order("q", alone, "hostile", 0);
  studies[1].busy_s = 1;
  studies[0].busy_s = 9;
  EXPECT_EQ(turns.order("q", studies, "hostile", 0)[0], 0u);
}

Batch batch_of(int candidates, BatchKind kind = BatchKind::kTrials) {
  Batch batch;
  batch.kind = kind;
  for (int i = 0; i < candidates; ++i) {
    batch.proposals.emplace_back().text = absl::StrCat("t", i);
    batch.proposals.back().origin = Origin::kEvolve;
  }
  return batch;
}

// The numbers of candidates of its jobs, which have them in the batch's order.
std::vector<int> cut(const Batch& batch, int64_t measured, double measured_s) {
  StudyRow study;
  study.spec.add_workloads();
  StudyWorkloadRow workload;
  workload.measured = measured;
  workload.measured_s = measured_s;
  std::vector<int> counts;
  size_t next = 0;
  for (const JobRow& job : jobs_of(study, workload, make_target("x86_test"), batch, 1, 0)) {
    EXPECT_EQ(job.payload.candidates_size(), job.candidates);
    EXPECT_EQ(job.sources.size(), static_cast<size_t>(job.candidates));
    for (int i = 0; i < job.candidates; ++i) {
      EXPECT_EQ(job.payload.candidates(i).index(), i);
      EXPECT_EQ(job.payload.candidates(i).trace(), batch.proposals[next++].text);
    }
    counts.push_back(job.candidates);
  }
  EXPECT_EQ(next, batch.proposals.size());
  return counts;
}

TEST(StudyJobs, AJobTakesASliceAtMostAsFarAsIsKnown) {
  EXPECT_EQ(cut(batch_of(2), 0, 0), (std::vector<int>{1, 1}));
  EXPECT_EQ(cut(batch_of(16), 1, 0), (std::vector<int>{16}));
  EXPECT_EQ(cut(batch_of(16), 10, 0.5), (std::vector<int>{16}));
  EXPECT_EQ(cut(batch_of(16), 10, 1), (std::vector<int>{8, 8}));
  EXPECT_EQ(cut(batch_of(16), 5, 1), (std::vector<int>{4, 4, 4, 4}));
  EXPECT_EQ(cut(batch_of(3), 1, 60), (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(cut(batch_of(5, BatchKind::kFinalists), 1, 60), (std::vector<int>{5}));
}

class TurnsQueueTest : public QueueTest {};

INSTANTIATE_TEST_SUITE_P(Databases, TurnsQueueTest, ::testing::Values("sqlite", "postgres"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(TurnsQueueTest, AStudyDoesNotKeepADeviceThatOthersWaitFor) {
  const std::string first = make_study("ci"), second = make_study("ci");
  for (int i = 0; i < 20; ++i) queue(first), queue(second);
  Asker a;
  std::map<std::string, int> jobs;
  for (int i = 0; i < 20; ++i) {
    const v1::Job job = take_one(a);
    ++jobs[job.study()];
    finish(a, job, 0.4);
  }
  EXPECT_NEAR(jobs[study_name(first)], 10, 1);
  EXPECT_NEAR(jobs[study_name(second)], 10, 1);
}

TEST_P(TurnsQueueTest, ADeviceHasNoMoreThanASliceOfAStudyAtHand) {
  const std::string slow = make_study("ci");
  for (int i = 0; i < 4; ++i) queue(slow);
  Asker a;
  finish(a, take_one(a), 0.9);
  EXPECT_EQ(take(a, 2).size(), 1u) << "two would take 1.8 s";
  const std::string other = make_study("ci");
  queue(other);
  const std::vector<v1::Job> jobs = take(a, 2);
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_EQ(jobs[0].study(), study_name(other)) << "who came later waits for one candidate only";
}

// A cheap study and one whose candidates take ten times as long and more, of which jobs are queued.
class HoldQueueTest : public TurnsQueueTest {
 protected:
  void SetUp() override {
    TurnsQueueTest::SetUp();
    if (IsSkipped()) return;
    dear_ = make_study("ci");
    for (int i = 0; i < 40; ++i) queue(dear_);
    work(agent_, take_one(agent_), 0.8);
    cheap_ = make_study("ci");
    queue(cheap_);
    v1::Job job = take_one(agent_);
    if (job.study() == study_name(dear_)) {  // the device had it prepared
      work(agent_, job, 0.8);
      job = take_one(agent_);
    }
    EXPECT_EQ(job.study(), study_name(cheap_));
    work(agent_, job, 0.05);
  }

  Asker agent_;
  std::string dear_, cheap_;
};

INSTANTIATE_TEST_SUITE_P(Databases, HoldQueueTest, ::testing::Values("sqlite", "postgres"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(HoldQueueTest, ADearJobWaitsAMomentForTheCheapStudysNext) {
  EXPECT_TRUE(take(agent_).empty());
  now_ += rules_.hold_ms - 1;
  EXPECT_TRUE(take(agent_).empty());
  queue(cheap_);
  EXPECT_EQ(take_one(agent_).study(), study_name(cheap_));
}

TEST_P(HoldQueueTest, ADeviceWaitsOnceBetweenTwoJobs) {
  EXPECT_TRUE(take(agent_).empty());
  now_ += rules_.hold_ms;
  const v1::Job job = take_one(agent_);
  EXPECT_EQ(job.study(), study_name(dear_));
  work(agent_, job, 0.8);
  EXPECT_EQ(take_one(agent_).study(), study_name(dear_)) << "nobody is awaited any more";
}

TEST_P(HoldQueueTest, NobodyWaitsForAStudyThatHasEnded) {
  write([&](WriteTransaction& tx) {
    return tx.query("UPDATE studies SET state = 'succeeded' WHERE id = ?", cheap_).run();
  });
  EXPECT_EQ(take_one(agent_).study(), study_name(dear_));
}

TEST_P(HoldQueueTest, WhatIsNotFarLongerThanTheGapFillsIt) {
  rules_.hold_ms = 0;
  EXPECT_EQ(take_one(agent_).study(), study_name(dear_));
}

// Whose jobs come just before the wait is over, and take next to nothing.
TEST_P(HoldQueueTest, WaitingCountsSoThatTheDearStudyGetsItsShareOfTheTime) {
  const int64_t begun_ms = now_;
  double dear_s = 0;
  for (int i = 0; i < 1000; ++i) {
    std::vector<v1::Job> jobs = take(agent_);
    if (jobs.empty()) {
      now_ += rules_.hold_ms - 10;
      queue(cheap_);
      jobs = take(agent_);
    }
    ASSERT_EQ(jobs.size(), 1u);
    const bool dear = jobs[0].study() == study_name(dear_);
    work(agent_, jobs[0], dear ? 0.8 : 0.01);
    if (!dear) continue;
    dear_s += 0.8;
    queue(dear_), queue(cheap_);           // whose search had time
  }
  EXPECT_NEAR(dear_s / (1e-3 * static_cast<double>(now_ - begun_ms)), 0.1, 0.04);
}

}  // namespace
}  // namespace lw
