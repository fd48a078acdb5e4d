// Who gets which job, and what becomes of it when agents, devices and calls go wrong: hazards of
// Buildbarn's queue by their names, and ours. Over SQLite and PostgreSQL, on a clock that is moved.
#include "tests/queue/queue_fixture.h"

namespace lw {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;


// ---- which job ----------------------------------------------------------------------------------

TEST_P(QueueTest, TheOldestComesFirst) {
  const std::string study = make_study("ci");
  const int64_t first = queue(study), second = queue(study);
  Asker a;
  EXPECT_EQ(take_one(a).name(), job_name(first));
  EXPECT_EQ(take_one(a).name(), job_name(second));
  EXPECT_THAT(take(a), IsEmpty());
}

TEST_P(QueueTest, AClaimCountsTheAttemptAndMovesTheEpoch) {
  const int64_t id = queue(make_study("ci"));
  Asker a;
  const v1::Job claimed = take_one(a);
  EXPECT_EQ(claimed.epoch(), 1);
  EXPECT_EQ(claimed.lease().seconds(), rules_.ttl_ms / 1000);
  EXPECT_EQ(job(id).attempt, 1);
  EXPECT_EQ(job(id).lease_until, now_ + rules_.ttl_ms);
  EXPECT_EQ(job(id).session, "s1");
}

TEST_P(QueueTest, HigherPrioritiesComeFirstWithinAClient) {
  const std::string low = make_study("ci", -10), high = make_study("ci", 10);
  const int64_t later = queue(low), sooner = queue(high);
  Asker a;
  EXPECT_EQ(take_one(a).name(), job_name(sooner));
  EXPECT_EQ(take_one(a).name(), job_name(later));
}

TEST_P(QueueTest, PrioritiesOutweighRunningJobsByTheirPower) {
  // 2^(100/100): the urgent client may run twice as many.
  const std::string usual = make_study("usual"), urgent = make_study("urgent", 100);
  for (int i = 0; i < 9; ++i) queue(usual), queue(urgent);
  Asker a;
  std::map<std::string, int> claimed;
  for (int i = 0; i < 9; ++i) ++claimed[take_one(a).study()];
  EXPECT_EQ(claimed[study_name(urgent)], 6);
  EXPECT_EQ(claimed[study_name(usual)], 3);
}

TEST_P(QueueTest, InvocationFairness) {
  const std::string first = make_study("a"), second = make_study("b");
  for (int i = 0; i < 20; ++i) queue(first);
  for (int i = 0; i < 20; ++i) queue(second);
  Asker a;
  std::map<std::string, int> claimed;
  for (int i = 0; i < 10; ++i) ++claimed[take_one(a).study()];
  EXPECT_EQ(claimed[study_name(first)], 5);
  EXPECT_EQ(claimed[study_name(second)], 5);
}

TEST_P(QueueTest, InvocationFairnessWithOneJobAtATime) {
  // Nobody runs anything whenever the device asks: equals are served by age, not by name.
  const std::string first = make_study("a"), second = make_study("b");
  queue(first);
  const int64_t waiting = queue(second);
  queue(first);
  Asker a;
  std::vector<std::string> claimed;
  for (int i = 0; i < 2; ++i) {
    claimed.push_back(take_one(a).name());
    send(a, result_of(a.held[0]));
  }
  EXPECT_EQ(claimed[1], job_name(waiting));
}

TEST_P(QueueTest, AClientsWeightIsItsShare) {
  shares_.weights["heavy"] = 3;
  const std::string heavy = make_study("heavy"), light = make_study("light");
  for (int i = 0; i < 20; ++i) queue(light), queue(heavy);
  Asker a;
  std::map<std::string, int> claimed;
  for (int i = 0; i < 12; ++i) ++claimed[take_one(a).study()];
  EXPECT_EQ(claimed[study_name(heavy)], 9);
  EXPECT_EQ(claimed[study_name(light)], 3);
}

TEST_P(QueueTest, ADeviceStaysWithTheWorkloadThatItHasPrepared) {
  const std::string study = make_study("ci", 0, 2);
  const int64_t first = queue(study, 1, 0), other = queue(study, 1, 1), same = queue(study, 1, 0);
  Asker a;
  EXPECT_EQ(take_one(a).name(), job_name(first));
  EXPECT_EQ(take_one(a).name(), job_name(same));
  EXPECT_EQ(take_one(a).name(), job_name(other));
}

TEST_P(QueueTest, PrioritiesBreakThatStay) {
  const std::string study = make_study("ci"), urgent = make_study("ci", 50);
  queue(study);
  Asker a;
  take_one(a);
  queue(study);
  const int64_t id = queue(urgent);
  EXPECT_EQ(take_one(a).name(), job_name(id));
}

TEST_P(QueueTest, AJobWaitsForItsTimeAndHidesNoOther) {
  const std::string study = make_study("ci");
  const int64_t later = queue(study, 1, 0, now_ + 1000), ready = queue(study);
  Asker a;
  EXPECT_EQ(take_one(a).name(), job_name(ready));
  EXPECT_THAT(take(a), IsEmpty());
  now_ += 1000;
  EXPECT_EQ(take_one(a).name(), job_name(later));
}

TEST_P(QueueTest, JobsOfAnotherTargetAreNotTaken) {
  queue(make_study("ci"), 1, 0, 0, "x86_other");
  Asker a;
  EXPECT_THAT(take(a), IsEmpty());
}

TEST_P(QueueTest, JobsOfAnotherCodeGeneratorHideNone) {
  const std::string study = make_study("ci", 5), other = make_study("ci");
  const int64_t old_code = queue(study);
  backend_ = "llvm 2";
  const int64_t new_code = queue(other);
  Asker a, b{.agent = "b", .devices = {"e"}, .backend = "llvm 2"};
  EXPECT_EQ(take_one(b).name(), job_name(new_code));  // whatever the priority of others
  EXPECT_THAT(take(b), IsEmpty());
  const v1::Job taken = take_one(a);
  EXPECT_EQ(taken.name(), job_name(old_code));
  EXPECT_EQ(taken.backend(), "llvm");
  EXPECT_THAT(take(a), IsEmpty());
}

TEST_P(QueueTest, JobsOfAnOlderDaemonGetTheirStudysCodeGenerator) {
  backend_ = "";
  const int64_t id = queue(make_study("ci"));
  Asker a;
  EXPECT_THAT(take(a), IsEmpty());
  write([&](WriteTransaction& tx) {
    return adopt_old_jobs(tx, 10, &changes_).status();
  });
  EXPECT_THAT(changes_.queued, ElementsAre(queue_of(job(id).target, "llvm")));
  EXPECT_EQ(take_one(a).name(), job_name(id));
}

TEST_P(QueueTest, AsManyAsAreWantedAtOnce) {
  const std::string study = make_study("ci");
  for (int i = 0; i < 5; ++i) queue(study);
  Asker a;
  EXPECT_EQ(take(a, 3).size(), 3u);
  EXPECT_EQ(take(a, 0).size(), 0u);
  EXPECT_EQ(take(a, 16).size(), 2u);
}

TEST_P(QueueTest, WhoeverLeavesOrIsSickGetsNothing) {
  queue(make_study("ci"));
  Asker a;
  a.leaving = true;
  EXPECT_THAT(take(a), IsEmpty());
  a.leaving = false;
  a.health = v1::DEVICE_HEALTH_UNHEALTHY;
  EXPECT_THAT(take(a), IsEmpty());
  a.health = v1::DEVICE_HEALTH_OK;
  EXPECT_EQ(take(a).size(), 1u);
}

// ---- leases that end ----------------------------------------------------------------------------

TEST_P(QueueTest, ALeaseIsRenewedByEveryCallThatListsIt) {
  const int64_t id = queue(make_study("ci"));
  Asker a;
  take_one(a);
  for (int i = 0; i < 10; ++i) {
    now_ += rules_.ttl_ms - 1;
    EXPECT_THAT(take(a, 0), IsEmpty());
    EXPECT_EQ(job(id).lease_until, now_ + rules_.ttl_ms);
    EXPECT_EQ(expire(), 0);
  }
  EXPECT_EQ(job(id).attempt, 1);
}

TEST_P(QueueTest, ALeaseThatRunsOutGoesBackToTheQueue) {
  const int64_t id = queue(make_study("ci"));
  Asker a, b{.agent = "b", .devices = {"e"}};
  take_one(a);
  now_ += rules_.ttl_ms;
  EXPECT_EQ(expire(), 0);
  now_ += 1;
  EXPECT_EQ(expire(), 1);
  EXPECT_EQ(job(id).state, v1::JOB_STATE_QUEUED);
  EXPECT_THAT(job(id).lost_on, ElementsAre("a"));
  EXPECT_EQ(take_one(b).epoch(), 2);
}

TEST_P(QueueTest, ACrashingCandidateIsChargedAfterTwoAgents) {
  const std::string study = make_study("ci");
  const int64_t id = queue(study);
  for (const char* agent : {"a", "b"}) {
    Asker asker{.agent = agent, .devices = {agent}};
    take_one(asker);
    vanish(asker);
  }
  EXPECT_EQ(job(id).state, v1::JOB_STATE_DEAD);
  EXPECT_THAT(job(id).lost_on, ElementsAre("a", "b"));
  EXPECT_EQ(text("SELECT verdict FROM measurements"), "crash");
  EXPECT_EQ(number("SELECT failed FROM studies"), 1);
  EXPECT_EQ(number("SELECT trials FROM study_workloads"), 1);
}

TEST_P(QueueTest, PoisonIsSplitUntilTheGuiltyOneIsFound) {
  const std::string study = make_study("ci");
  const int64_t id = queue(study, 3);
  const std::string guilty = job(id).payload.candidates(1).trace();
  Asker agents[] = {{.agent = "a", .devices = {"d0"}}, {.agent = "b", .devices = {"d1"}}};
  for (int i = 0; number("SELECT count(*) FROM jobs WHERE state = 'queued'") > 0; ++i) {
    ASSERT_LT(i, 20);
    Asker& asker = agents[i % 2];
    const v1::Job claimed = take_one(asker);
    bool crashes = false;
    for (const v1::CandidateSpec& one : claimed.candidates()) crashes |= one.trace() == guilty;
    if (crashes) {
      vanish(asker);
    } else {
      EXPECT_EQ(send(asker, result_of(claimed)).kind(), v1::RECEIPT_KIND_STORED);
    }
  }
  EXPECT_EQ(number("SELECT count(*) FROM measurements"), 3);
  EXPECT_EQ(number("SELECT count(*) FROM measurements WHERE verdict = 'crash'"), 1);
  EXPECT_EQ(text("SELECT trace FROM candidates c JOIN measurements m ON m.candidate = c.id "
                 "WHERE m.verdict = 'crash'"), guilty);
  EXPECT_EQ(number("SELECT trials FROM studies"), 3);
}

// One that takes whatever there is and loses it would use up everybody's attempts.
TEST_P(QueueTest, AnAgentThatLosesAllItTakesRestsLongerEachTimeUntilItFinishesOne) {
  rules_ = LeaseRules();
  const int64_t id = queue(make_study("ci"));
  Asker rogue;
  const int64_t begun = now_;
  while (now_ < begun + 60'000) {       // others have long had their turn
    rogue.held.clear();                    // the one before never reached it
    take(rogue);
    now_ += 100;
  }
  EXPECT_GT(job(id).attempt, rules_.free_losses);
  EXPECT_LT(job(id).attempt, rules_.most_attempts) << "the job is still there for others";
  Asker honest;
  honest.agent = "b", honest.session = "s2", honest.devices = {"e"};
  rogue.held.clear();
  take(rogue, 0);
  EXPECT_EQ(send(honest, result_of(take_one(honest))).kind(), v1::RECEIPT_KIND_STORED);
  // The rest is over some time; then one that is finished is enough.
  now_ += rules_.longest_rest_ms;
  queue(make_study("cd"));
  EXPECT_EQ(send(rogue, result_of(take_one(rogue))).kind(), v1::RECEIPT_KIND_STORED);
  for (int i = 0; i < rules_.free_losses; ++i) {
    queue(make_study(absl::StrCat("c", i)));
    rogue.held.clear();
    EXPECT_EQ(take(rogue).size(), 1u) << i;
  }
}

TEST_P(QueueTest, ADeviceThatNeverFinishedAJobGetsOneAtATime) {
  rules_ = LeaseRules();
  for (int i = 0; i < 6; ++i) queue(make_study(absl::StrCat("c", i)));
  Asker a;
  const v1::Job first = take_one(a);
  EXPECT_THAT(take(a, 3), IsEmpty());
  EXPECT_EQ(send(a, result_of(first)).kind(), v1::RECEIPT_KIND_STORED);
  EXPECT_EQ(take(a, 3).size(), 3u);
}

// A rolling upgrade: boards of one target, some with the next version of the code generator.
TEST_P(QueueTest, NoJobCrossesFromOneCodeGeneratorToAnother) {
  backend_ = "llvm r1";
  const int64_t id = queue(make_study("ci"));
  Asker newer;
  newer.backend = "llvm r2";
  EXPECT_THAT(take(newer, 4), IsEmpty());
  Asker older;
  older.agent = "b", older.session = "s2", older.devices = {"e"}, older.backend = "llvm r1";
  const v1::Job taken = take_one(older);
  older.backend = "llvm r2";               // upgraded under the job
  EXPECT_EQ(send(older, result_of(taken)).kind(), v1::RECEIPT_KIND_REFUSED);
  EXPECT_EQ(number("SELECT count(*) FROM measurements"), 0);
  EXPECT_EQ(number("SELECT max(failures) FROM devices"), 0) << "nobody is to blame";
  EXPECT_EQ(job(id).state, v1::JOB_STATE_QUEUED);
}

TEST_P(QueueTest, CrashLoopingWorker) {
  // One agent alone that dies of everything: attempts are bounded.
  const int64_t id = queue(make_study("ci"));
  Asker a;
  for (int i = 0; i < rules_.most_attempts; ++i) {
    a.session = absl::StrCat("run", i);
    a.held.clear();
    EXPECT_EQ(take(a).size(), 1u) << i;
  }
  a.session = "the last";
  a.held.clear();
  EXPECT_THAT(take(a), IsEmpty());
  EXPECT_EQ(job(id).state, v1::JOB_STATE_DEAD);
  EXPECT_EQ(number("SELECT count(*) FROM measurements WHERE verdict = 'crash'"), 1);
}

v1::JobResult given_back(const v1::Job& job) {
  v1::JobResult result;
  result.set_job(job.name());
  result.set_epoch(job.epoch());
  result.set_abandoned(true);
  return result;
}

TEST_P(QueueTest, WhatAnAgentGaveBackIsNoAttemptToBeChargedFor) {
  const int64_t id = queue(make_study("ci"));
  Asker a;
  for (int i = 0; i < rules_.most_attempts - 2; ++i) {
    EXPECT_EQ(send(a, given_back(take_one(a))).kind(), v1::RECEIPT_KIND_STORED);
  }
  take_one(a);
  vanish(a);
  EXPECT_EQ(job(id).state, v1::JOB_STATE_QUEUED) << "lost once, by one agent";
  take_one(a);
  vanish(a);
  EXPECT_EQ(job(id).state, v1::JOB_STATE_DEAD) << "the attempts are used up";
  EXPECT_EQ(number("SELECT count(*) FROM measurements"), 0);
}

TEST_P(QueueTest, AJobThatIsGivenBackForEverIsGivenUp) {
  const int64_t id = queue(make_study("ci"), 2);
  Asker a;
  for (int i = 0; i < rules_.most_attempts; ++i) {
    EXPECT_EQ(job(id).state, v1::JOB_STATE_QUEUED) << i;
    EXPECT_EQ(send(a, given_back(take_one(a))).kind(), v1::RECEIPT_KIND_STORED);
  }
  EXPECT_THAT(take(a), IsEmpty());
  EXPECT_EQ(job(id).state, v1::JOB_STATE_DEAD);
  EXPECT_THAT(job(id).detail, HasSubstr("given up after 8 attempts, the last: given back"));
  EXPECT_EQ(number("SELECT count(*) FROM jobs"), 1) << "not split: nobody disappeared";
  EXPECT_EQ(number("SELECT count(*) FROM measurements"), 0);
}

TEST_P(QueueTest, AJobThatNeverReachesItsAgentIsGivenUp) {
  const int64_t id = queue(make_study("ci"));
  Asker a;
  for (int i = 0; i < rules_.most_attempts; ++i) {
    take_one(a);
    a.held.clear();                        // the answer was lost, and the time to say it again
    now_ += rules_.ttl_ms / 2;
  }
  EXPECT_THAT(take(a), IsEmpty());
  EXPECT_EQ(job(id).state, v1::JOB_STATE_DEAD);
}

TEST_P(QueueTest, AJobThatFailsThroughDevicesIsNeverCharged) {
  rules_.quarantine_failures = 1000;
  const int64_t id = queue(make_study("ci"));
  Asker a;
  for (int i = 0; i < rules_.most_attempts; ++i) {
    now_ += 60'000;
    const std::vector<v1::Job> claimed = take(a);
    ASSERT_EQ(claimed.size(), 1u) << i;
    send(a, failure_of(claimed[0], v1::VERDICT_THROTTLED));
  }
  EXPECT_EQ(job(id).state, v1::JOB_STATE_DEAD);
  EXPECT_THAT(job(id).lost_on, IsEmpty());
  EXPECT_EQ(number("SELECT count(*) FROM measurements"), 0);
  EXPECT_EQ(number("SELECT failed FROM studies"), 0);
}

TEST_P(QueueTest, AFailureBacksOffAndDoubles) {
  const int64_t id = queue(make_study("ci"));
  Asker a;
  send(a, failure_of(take_one(a), v1::VERDICT_WORKER_LOST));
  EXPECT_EQ(job(id).run_after, now_ + rules_.backoff_ms);
  EXPECT_THAT(take(a), IsEmpty());
  now_ += rules_.backoff_ms;
  send(a, failure_of(take_one(a), v1::VERDICT_WORKER_LOST));
  EXPECT_EQ(job(id).run_after, now_ + 2 * rules_.backoff_ms);
  EXPECT_THAT(job(id).detail, HasSubstr("the fan stands still"));
}

TEST_P(QueueTest, AJobThatNeverReachedItsAgentIsReleased) {
  const int64_t id = queue(make_study("ci"));
  Asker a;
  take_one(a);
  a.held.clear();                          // the answer was lost
  now_ += rules_.ttl_ms / 2;
  const std::vector<v1::Job> again = take(a);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].epoch(), 2);
  EXPECT_THAT(job(id).lost_on, IsEmpty());
}

TEST_P(QueueTest, ADelayedOlderCallTakesNothing) {
  const int64_t id = queue(make_study("ci"));
  Asker a;
  take_one(a);
  Asker delayed = a;
  delayed.held.clear();
  delayed.is_latest = false;
  EXPECT_THAT(take(delayed), IsEmpty());
  EXPECT_EQ(job(id).state, v1::JOB_STATE_LEASED);
  EXPECT_EQ(job(id).epoch, 1);
}

TEST_P(QueueTest, AHeldJobThatIsNotTheAgentsIsToBeCancelled) {
  queue(make_study("ci"));
  Asker a, b{.agent = "b", .devices = {"e"}};
  v1::Job stale = take_one(a);
  now_ += rules_.ttl_ms + 1;
  expire();
  take_one(b);
  const absl::StatusOr<v1::SynchronizeResponse> response = call(a, 0);
  ASSERT_TRUE(response.ok());
  ASSERT_EQ(response->cancels_size(), 1);
  EXPECT_EQ(response->cancels(0).job(), stale.name());
  EXPECT_EQ(response->cancels(0).epoch(), 1);
}

TEST_P(QueueTest, AJobListedTwiceIsRenewedAndNotCancelled) {
  const int64_t id = queue(make_study("ci"));
  Asker a;
  take_one(a);
  a.held.push_back(a.held[0]);
  now_ += 20'000;
  const absl::StatusOr<v1::SynchronizeResponse> response = call(a, 0);
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->cancels_size(), 0);
  EXPECT_EQ(job(id).lease_until, now_ + rules_.ttl_ms);
}

}  // namespace
}  // namespace lw
