// How clients share devices: by what they pay for a second, while jobs are out and searches think; and
// what is taken back from devices that do not answer.
#include "src/serve/queue/client_turns.h"

#include "tests/queue/queue_fixture.h"

namespace lw {
namespace {

using ::testing::IsEmpty;

// Clients that always have a job, of so many seconds each; a device takes `count` jobs. What it has done
// for each.
std::map<std::string, double> share(ClientTurns& turns, const std::map<std::string, double>& job_s,
                                    const std::map<std::string, double>& costs, int count) {
  static int64_t next_job = 0;
  std::map<std::string, double> got;
  for (int i = 0; i < count; ++i) {
    std::string chosen;
    for (const auto& [client, seconds] : job_s) {
      const bool before = chosen.empty() || turns.begin("q", client) < turns.begin("q", chosen);
      if (before) chosen = client;
    }
    const std::pair<int64_t, int64_t> job(++next_job, 1);
    const double seconds = job_s.at(chosen);
    turns.give("q", chosen, job, 1, costs.at(chosen), 0);
    turns.settle(job, seconds, 100'000);
    got[chosen] += seconds;
  }
  return got;
}

TEST(ClientTurns, SecondsAreSharedByWhatTheyCostHoweverJobsAreCut) {
  ClientTurns turns;
  const auto got = share(turns, {{"large", 1}, {"many", 0.05}, {"paid", 0.3}},
                         {{"large", 1}, {"many", 1}, {"paid", 0.25}}, 5000);
  EXPECT_NEAR(got.at("many") / got.at("large"), 1, 0.05);
  EXPECT_NEAR(got.at("paid") / got.at("large"), 4, 0.2);
}

TEST(ClientTurns, WhoIsNewOrWasAwayBeginsWhereTheOthersAre) {
  ClientTurns turns;
  const std::map<std::string, double> costs = {{"a", 1}, {"b", 1}};
  share(turns, {{"a", 1}}, costs, 100);
  EXPECT_NEAR(share(turns, {{"a", 1}, {"b", 1}}, costs, 100).at("a"), 50, 1);
  share(turns, {{"b", 1}}, costs, 100);
  EXPECT_NEAR(share(turns, {{"a", 1}, {"b", 1}}, costs, 100).at("a"), 50, 1);
}

TEST(ClientTurns, WhatIsOutCountsAsItIsExpectedTo) {
  ClientTurns turns;
  turns.give("q", "a", {1, 1}, 2, 1, 0);
  turns.give("q", "a", {1, 1}, 2, 1, 0);
  EXPECT_EQ(turns.begin("q", "a"), 2) << "once, when the transaction runs again";
  EXPECT_EQ(turns.begin("q", "b"), 0);
  EXPECT_EQ(turns.begin("another", "a"), 0);
  turns.settle({1, 1}, 0.5, 3000);
  turns.settle({1, 1}, 0.5, 3000);
  EXPECT_EQ(turns.begin("q", "a"), 0.5);
  turns.give("q", "a", {1, 2}, 2, 1, 3000);
  turns.settle({1, 2}, 1e6, 4000);
  EXPECT_EQ(turns.begin("q", "a"), 1.5) << "nothing takes longer than it was out";
}

// Who was behind when it left for a moment is first again, however the other's jobs come and go.
TEST(ClientTurns, WhoPaysLittleGoesBeforeEachNextJobOfTheOther) {
  ClientTurns turns;
  for (int64_t i = 1; i < 20; ++i) {
    turns.give("q", "usual", {i, 1}, 1, 1, 0);
    EXPECT_LT(turns.begin("q", "paid"), turns.begin("q", "usual"));
    turns.give("q", "paid", {-i, 1}, 1, 0.01, 0);
  }
}

class ClientQueueTest : public QueueTest {
 protected:
  // A client whose jobs take long, and one that pays little and for whom the device works now.
  void SetUp() override {
    QueueTest::SetUp();
    if (IsSkipped()) return;
    shares_.weights["honest"] = 100;
    other_ = make_study("other");
    for (int i = 0; i < 40; ++i) queue(other_);
    work(agent_, take_one(agent_), 0.8);
    honest_ = make_study("honest");
    queue(honest_);
    const v1::Job job = take_one(agent_);
    EXPECT_EQ(job.study(), study_name(honest_));
    work(agent_, job, 0.05);
  }

  Asker agent_;
  std::string other_, honest_;
};

INSTANTIATE_TEST_SUITE_P(Databases, ClientQueueTest, ::testing::Values("sqlite", "postgres"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(ClientQueueTest, ALongJobWaitsAMomentForTheNextOfWhoseTurnItIs) {
  EXPECT_THAT(take(agent_), IsEmpty());
  now_ += rules_.hold_ms - 1;
  EXPECT_THAT(take(agent_), IsEmpty());
  queue(honest_);
  EXPECT_EQ(take_one(agent_).study(), study_name(honest_));
}

TEST_P(ClientQueueTest, ADeviceWaitsOnceBetweenTwoJobs) {
  EXPECT_THAT(take(agent_), IsEmpty());
  now_ += rules_.hold_ms;
  work(agent_, take_one(agent_), 0.8);
  EXPECT_EQ(take_one(agent_).study(), study_name(other_)) << "nobody is awaited any more";
}

TEST_P(ClientQueueTest, WhatIsShorterThanTheWaitFillsIt) {
  rules_.hold_ms = 1000;
  EXPECT_EQ(take_one(agent_).study(), study_name(other_));
}

TEST_P(ClientQueueTest, NobodyWaitsForAStudyThatHasEnded) {
  write([&](WriteTransaction& tx) {
    return tx.query("UPDATE studies SET state = 'succeeded' WHERE id = ?", honest_).run();
  });
  EXPECT_EQ(take_one(agent_).study(), study_name(other_));
}

// Waits that are in vain cost who is waited for.
TEST_P(ClientQueueTest, WhoIsWaitedForPaysForIt) {
  shares_.weights["honest"] = 1;
  const int64_t begun_ms = now_;
  double other_s = 0;
  for (int i = 0; i < 400; ++i) {
    std::vector<v1::Job> jobs = take(agent_);
    if (jobs.empty()) {
      now_ += rules_.hold_ms - 10;
      queue(honest_);
      jobs = take(agent_);
    }
    ASSERT_EQ(jobs.size(), 1u);
    const bool is_other = jobs[0].study() == study_name(other_);
    work(agent_, jobs[0], is_other ? 0.8 : 0.01);
    if (!is_other) continue;
    other_s += 0.8;
    queue(other_), queue(honest_);
  }
  EXPECT_NEAR(other_s / (1e-3 * static_cast<double>(now_ - begun_ms)), 0.5, 0.05);
}

class ProbationQueueTest : public QueueTest {
 protected:
  void SetUp() override {
    QueueTest::SetUp();
    if (IsSkipped()) return;
    rules_ = LeaseRules();
    queue(make_study("earlier"));
    work(proven_, take_one(proven_), 0.1);
  }

  Asker proven_;
  Asker silent_{.agent = "b", .session = "s2", .devices = {"e"}};
};

INSTANTIATE_TEST_SUITE_P(Databases, ProbationQueueTest, ::testing::Values("sqlite", "postgres"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(ProbationQueueTest, WhatANewDeviceDoesNotAnswerIsAProvenOnesSoon) {
  const int64_t id = queue(make_study("ci"));
  const v1::Job taken = take_one(silent_);
  const int64_t begun_ms = now_;
  while (take(proven_).empty()) {
    ASSERT_LT(now_, begun_ms + rules_.ttl_ms / 3) << "a lost answer is no sooner noticed";
    now_ += 100;
  }
  EXPECT_GT(now_, begun_ms + 1000);
  EXPECT_EQ(job(id).agent, "a");
  EXPECT_EQ(job(id).epoch, 2);
  EXPECT_THAT(job(id).lost_on, IsEmpty()) << "nothing poisons it";
  EXPECT_EQ(send(silent_, result_of(taken)).kind(), v1::RECEIPT_KIND_LEASE_LOST);
  EXPECT_EQ(send(proven_, result_of(proven_.held[0])).kind(), v1::RECEIPT_KIND_STORED);
}

TEST_P(ProbationQueueTest, ItKeepsTheJobWhereNobodyElseAsks) {
  const int64_t id = queue(make_study("ci"));
  const v1::Job taken = take_one(silent_);
  for (int i = 0; i < 20; ++i) {
    now_ += 1000;
    EXPECT_THAT(take(silent_, 0), IsEmpty());
  }
  work(silent_, taken, 0.1);
  EXPECT_EQ(job(id).state, v1::JOB_STATE_DONE);
  queue(make_study("next"));
  take_one(silent_);
  now_ += 20'000;
  EXPECT_THAT(take(proven_), IsEmpty()) << "who has finished one keeps what it takes";
}

TEST_P(ProbationQueueTest, WhoLosesJobsHasMoreTimeForTheNextAndRests) {
  int64_t before_ms = 0;
  for (int i = 0; i < rules_.free_losses; ++i) {
    queue(make_study("ci"));
    silent_.held.clear();
    ASSERT_EQ(take(silent_).size(), 1u);
    const int64_t begun_ms = now_;
    while (take(proven_).empty()) now_ += 100;
    EXPECT_GT(now_ - begun_ms, before_ms);
    before_ms = now_ - begun_ms;
    work(proven_, proven_.held[0], 0.1);
  }
  queue(make_study("ci"));
  silent_.held.clear();
  take(silent_);
  while (take(proven_).empty()) now_ += 100;
  work(proven_, proven_.held[0], 0.1);
  queue(make_study("ci"));
  silent_.held.clear();
  EXPECT_THAT(take(silent_), IsEmpty());
}

}  // namespace
}  // namespace lw
