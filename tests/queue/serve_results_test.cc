// What agents bring: sessions that end each other, results that count once or not at all; and a long
// random life of it all. Over SQLite and PostgreSQL, on a clock that is moved.
#include "src/base/rng.h"
#include "src/serve/messages/errors.h"
#include "tests/queue/queue_fixture.h"

namespace lw {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// ---- sessions -----------------------------------------------------------------------------------

TEST_P(QueueTest, ANewSessionLosesWhatTheEarlierHeld) {
  const int64_t id = queue(make_study("ci"));
  Asker a;
  take_one(a);
  Asker restarted{.agent = "a", .session = "s2"};
  const v1::Job again = take_one(restarted);
  EXPECT_EQ(again.epoch(), 2);
  EXPECT_THAT(job(id).lost_on, ElementsAre("a"));
}

TEST_P(QueueTest, AReplacedSessionIsRefused) {
  Asker a, other{.agent = "a", .session = "s2"};
  take(a);
  take(other);
  const absl::StatusOr<v1::SynchronizeResponse> refused = call(a);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(reason_of(refused.status()), v1::ERROR_REASON_SESSION_REPLACED);
  EXPECT_TRUE(call(other).ok());
}

TEST_P(QueueTest, AZombieIsFencedByItsEpoch) {
  const int64_t id = queue(make_study("ci"));
  Asker stopped, other{.agent = "b", .devices = {"e"}};
  const v1::Job old = take_one(stopped);
  now_ += rules_.ttl_ms + 1;
  expire();
  const v1::Job current = take_one(other);
  EXPECT_EQ(send(stopped, result_of(old, 1)).kind(), v1::RECEIPT_KIND_LEASE_LOST);
  EXPECT_EQ(job(id).state, v1::JOB_STATE_LEASED);
  EXPECT_EQ(send(other, result_of(current)).kind(), v1::RECEIPT_KIND_STORED);
  EXPECT_EQ(number("SELECT count(*) FROM measurements"), 1);
  EXPECT_EQ(number("SELECT count(*) FROM orphans"), 1);
}

// The fixture's candidates all give one kernel.
TEST_P(QueueTest, AWithdrawnKernelIsNoStudysBest) {
  const std::string study = make_study("ci");
  queue(study), queue(study), queue(study);
  Asker a;
  const v1::Job first = take_one(a);
  ASSERT_EQ(send(a, result_of(first, 10)).kind(), v1::RECEIPT_KIND_STORED);
  const std::string best = "SELECT count(*) FROM study_workloads WHERE best_us = ";
  EXPECT_EQ(number(best + "10.5"), 1);
  const Key key = (*store_->keys())[0];
  const std::string trace = first.candidates(0).trace();
  ASSERT_TRUE(store_->withdraw({key, trace, "wrong", "", "admin/a", now_}).ok());
  ASSERT_EQ(send(a, result_of(take_one(a), 5)).kind(), v1::RECEIPT_KIND_STORED);
  EXPECT_EQ(number(best + "5.5"), 0) << "another trace of the same kernel";
  ASSERT_TRUE(store_->restore(key, trace).ok());
  ASSERT_EQ(send(a, result_of(take_one(a), 4)).kind(), v1::RECEIPT_KIND_STORED);
  EXPECT_EQ(number(best + "4.5"), 1);
}

TEST_P(QueueTest, ALateResultIsRefusedEvenIfNobodyHasNoticed) {
  const int64_t id = queue(make_study("ci"));
  Asker a;
  const v1::Job claimed = take_one(a);
  now_ += rules_.ttl_ms + 1;
  EXPECT_EQ(send(a, result_of(claimed)).kind(), v1::RECEIPT_KIND_LEASE_LOST);
  EXPECT_EQ(job(id).state, v1::JOB_STATE_QUEUED);
  EXPECT_EQ(number("SELECT count(*) FROM orphans"), 1);
  EXPECT_EQ(number("SELECT count(*) FROM measurements"), 0);
}

TEST_P(QueueTest, PurgeStaleWorkers) {
  // A device of an agent that is long gone may come back under another.
  Asker a{.fingerprint = "one"}, b{.agent = "b", .fingerprint = "one"};
  take(a);
  EXPECT_EQ(reason_of(call(b).status()), v1::ERROR_REASON_ROLE_DENIED);
  now_ += 4 * rules_.ttl_ms + 1;
  EXPECT_TRUE(call(b).ok());
  EXPECT_EQ(device("d").agent, "b");
}

// ---- results ------------------------------------------------------------------------------------

TEST_P(QueueTest, AResultIsStoredOnceAndItsRepetitionsKnown) {
  const std::string study = make_study("ci");
  queue(study, 2);
  Asker a;
  const v1::Job claimed = take_one(a);
  const v1::JobResult result = result_of(claimed, 42);
  EXPECT_EQ(send(a, result).kind(), v1::RECEIPT_KIND_STORED);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(send(a, result).kind(), v1::RECEIPT_KIND_DUPLICATE);
  EXPECT_EQ(number("SELECT count(*) FROM measurements"), 2);
  EXPECT_EQ(number("SELECT trials FROM studies"), 2);
  EXPECT_EQ(number("SELECT count(*) FROM orphans"), 0);
  EXPECT_EQ(number("SELECT count(*) FROM events WHERE study = '" + study + "'"), 2);
}

TEST_P(QueueTest, AnotherResultOfTheSameLeaseIsAnOrphan) {
  queue(make_study("ci"));
  Asker a;
  const v1::Job claimed = take_one(a);
  send(a, result_of(claimed, 42));
  EXPECT_EQ(send(a, result_of(claimed, 1)).kind(), v1::RECEIPT_KIND_LEASE_LOST);
  EXPECT_EQ(number("SELECT count(*) FROM measurements"), 1);
  EXPECT_EQ(number("SELECT count(*) FROM orphans"), 1);
}

// ---- orphans ------------------------------------------------------------------------------------

TEST_P(QueueTest, OnlyWhoHeldTheJobLeavesAnOrphan) {
  queue(make_study("ci"));
  Asker a, b{.agent = "b", .devices = {"e"}}, stranger{.agent = "x", .devices = {"f"}};
  const v1::Job first = take_one(a);
  vanish(a);
  const v1::Job second = take_one(b);
  v1::JobResult forged = result_of(first, 1);
  EXPECT_EQ(send(stranger, forged).kind(), v1::RECEIPT_KIND_LEASE_LOST);
  b.results = {forged};                    // of another lease than the one that it holds
  EXPECT_EQ(call(b, 0)->receipts(0).kind(), v1::RECEIPT_KIND_LEASE_LOST);
  forged.set_epoch(second.epoch());
  EXPECT_EQ(send(a, forged).kind(), v1::RECEIPT_KIND_LEASE_LOST);
  EXPECT_EQ(number("SELECT count(*) FROM orphans"), 0);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(send(a, result_of(first, 10 + i)).kind(), v1::RECEIPT_KIND_LEASE_LOST);
  }
  EXPECT_EQ(number("SELECT count(*) FROM orphans"), 1) << "one of each lease";
  EXPECT_EQ(send(b, result_of(second)).kind(), v1::RECEIPT_KIND_STORED);
}

TEST_P(QueueTest, ALargeOrphanIsKeptWithoutItsOutcomes) {
  queue(make_study("ci"));
  Asker a;
  v1::JobResult result = result_of(take_one(a));
  result.mutable_outcomes(0)->mutable_measurement()->set_environment(std::string(1 << 20, 'e'));
  result.set_failure_detail("late");
  now_ += rules_.ttl_ms + 1;
  EXPECT_EQ(send(a, result).kind(), v1::RECEIPT_KIND_LEASE_LOST);
  v1::JobResult kept;
  ASSERT_TRUE(kept.ParseFromString(text("SELECT result FROM orphans")));
  EXPECT_EQ(kept.outcomes_size(), 0);
  EXPECT_EQ(kept.digest(), result.digest());
  EXPECT_THAT(kept.failure_detail(), AllOf(HasSubstr("1 outcomes of 10"), HasSubstr("late")));
}

TEST_P(QueueTest, OrphansAreSoManyTheOldestGoFirst) {
  const std::string study = make_study("ci");
  Asker a;
  const auto add = [&](const std::string& agent, int count) {
    write([&](WriteTransaction& tx) -> absl::Status {
      for (int i = 0; i < count; ++i) {
        RETURN_IF_ERROR(tx.query("INSERT INTO orphans (job, epoch, agent, received_ms, "
                                 "result) VALUES (?,1,?,?,?)", 1000 + i, agent, now_,
                                 Blob{""}).run());
      }
      return absl::OkStatus();
    });
  };
  const auto late = [&] {
    queue(study);
    const v1::JobResult result = result_of(take_one(a));
    now_ += rules_.ttl_ms + 1;
    EXPECT_EQ(send(a, result).kind(), v1::RECEIPT_KIND_LEASE_LOST);
    write([&](WriteTransaction& tx) { return tx.query("DELETE FROM jobs").run(); });
  };
  add("b", 3), add("a", 505);
  late();
  EXPECT_EQ(number("SELECT count(*) FROM orphans WHERE agent = 'a'"), 500);
  EXPECT_EQ(number("SELECT min(id) FROM orphans WHERE agent = 'a'"), 3 + 6 + 1);
  EXPECT_EQ(number("SELECT count(*) FROM orphans WHERE agent = 'b'"), 3);
  write([&](WriteTransaction& tx) { return tx.database().set_last_given(tx, "orphans", 11'000); });
  late();
  EXPECT_EQ(number("SELECT count(*) FROM orphans WHERE agent = 'b'"), 0) << "in all";
}

TEST_P(QueueTest, ADigestThatDoesNotFitIsRefused) {
  const int64_t id = queue(make_study("ci"));
  Asker a;
  v1::JobResult result = result_of(take_one(a));
  result.set_digest(sha256("another"));
  const v1::Receipt receipt = send(a, result);
  EXPECT_EQ(receipt.kind(), v1::RECEIPT_KIND_REFUSED);
  EXPECT_THAT(receipt.detail(), HasSubstr("digest"));
  EXPECT_EQ(job(id).state, v1::JOB_STATE_QUEUED);
  EXPECT_EQ(device("d").failures, 1);
}

TEST_P(QueueTest, ResultsThatDoNotAddUpAreRefused) {
  rules_.quarantine_failures = rules_.most_attempts = 100;
  queue(make_study("ci"), 2);
  Asker a;
  const std::vector<std::function<void(v1::JobResult&)>> spoilers = {
      [](v1::JobResult& r) { r.mutable_outcomes()->RemoveLast(); },
      [](v1::JobResult& r) { *r.add_outcomes() = r.outcomes(0); },
      [](v1::JobResult& r) { r.mutable_outcomes(1)->set_index(0); },
      [](v1::JobResult& r) { r.mutable_outcomes(1)->set_index(-1); },
      [](v1::JobResult& r) { r.mutable_outcomes(1)->set_index(2); },
      [](v1::JobResult& r) { r.mutable_outcomes(0)->clear_measurement(); },
      [](v1::JobResult& r) { r.mutable_outcomes(0)->mutable_measurement()->set_time_us(NAN); },
      [](v1::JobResult& r) {
        for (int i = 0; i < 10'001; ++i) {
          r.mutable_outcomes(0)->mutable_measurement()->add_samples_us(10);
        }
      },
      [](v1::JobResult& r) {
        r.mutable_outcomes(0)->mutable_measurement()->set_environment(std::string(1 << 20, ' '));
      },
      [](v1::JobResult& r) { r.set_failure(v1::VERDICT_CRASH), r.clear_outcomes(); }};
  for (size_t i = 0; i < spoilers.size(); ++i) {
    now_ += 1'000'000;
    const std::vector<v1::Job> claimed = take(a);
    ASSERT_EQ(claimed.size(), 1u) << i;
    v1::JobResult result = result_of(claimed[0]);
    spoilers[i](result);
    result.set_digest(result_digest(result));
    const v1::Receipt receipt = send(a, result);
    EXPECT_EQ(receipt.kind(), v1::RECEIPT_KIND_REFUSED) << i;
    EXPECT_NE(receipt.detail(), "") << i;
  }
  EXPECT_EQ(number("SELECT count(*) FROM measurements"), 0);
}

TEST_P(QueueTest, ResultsOfNoJobAreRefused) {
  Asker a;
  v1::JobResult result;
  result.set_job("jobs/999");
  result.set_epoch(1);
  EXPECT_EQ(send(a, result).kind(), v1::RECEIPT_KIND_REFUSED);
}

TEST_P(QueueTest, CandidatesThatFailedThroughNobodyAreNotStored) {
  queue(make_study("ci"), 2);
  Asker a;
  v1::JobResult result = result_of(take_one(a));
  *result.mutable_outcomes(0)->mutable_measurement() =
      to_proto(make_failure(1, Verdict::kWorkerLost));
  result.mutable_outcomes(0)->mutable_measurement()->clear_trace();
  result.set_digest(result_digest(result));
  EXPECT_EQ(send(a, result).kind(), v1::RECEIPT_KIND_STORED);
  EXPECT_EQ(number("SELECT count(*) FROM measurements"), 1);
  EXPECT_EQ(number("SELECT trials FROM studies"), 1);
}

TEST_P(QueueTest, AJobOfWhichNothingWasMeasuredFailsThroughItsDevice) {
  const std::string study = make_study("ci");
  queue(study);
  Asker a;
  send(a, result_of(take_one(a)));
  int64_t id = 0;
  for (int i = 0; i < rules_.quarantine_failures; ++i) {
    id = queue(study, 2);
    v1::JobResult result = result_of(take_one(a));
    for (v1::CandidateOutcome& outcome : *result.mutable_outcomes()) {
      *outcome.mutable_measurement() = to_proto(make_failure(1, Verdict::kThrottled));
      outcome.mutable_measurement()->clear_trace();
    }
    result.set_digest(result_digest(result));
    EXPECT_EQ(send(a, result).kind(), v1::RECEIPT_KIND_STORED);
  }
  EXPECT_EQ(job(id).state, v1::JOB_STATE_QUEUED);
  EXPECT_EQ(number("SELECT count(*) FROM measurements"), 1);
  EXPECT_EQ(device("d").admission, v1::DEVICE_ADMISSION_QUARANTINED);
  EXPECT_THAT(device("d").reason, HasSubstr("none of 2 candidates could be measured"));
}

// One job, or one client's jobs that nobody could measure yet, close no device.
TEST_P(QueueTest, NoClientAloneClosesADevice) {
  rules_.most_attempts = 100;
  Asker a;
  const auto fail = [&](const std::string& client) {
    queue(make_study(client));
    now_ += 600'000;
    send(a, failure_of(take_one(a), v1::VERDICT_DEVICE_UNHEALTHY));
  };
  for (int i = 0; i < 5; ++i) fail("hostile");
  EXPECT_EQ(device("d").failures, 1);
  EXPECT_EQ(device("d").jobs_failed, 5);
  EXPECT_EQ(device("d").admission, v1::DEVICE_ADMISSION_OPEN);
  write([](WriteTransaction& tx) {
    return tx.query("UPDATE jobs SET state = 'cancelled'").run();
  });
  fail("ci"), fail("nightly");             // three of three clients: it is the device
  EXPECT_EQ(device("d").admission, v1::DEVICE_ADMISSION_QUARANTINED);
}

TEST_P(QueueTest, AJobTooLargeIsGivenUpSoonAndCounted) {
  const std::string study = make_study("ci");
  const int64_t id = queue(study);
  Asker a;
  for (int i = 0; i < rules_.most_refusals; ++i) {
    now_ += 60'000;
    v1::JobResult refused = failure_of(take_one(a), v1::VERDICT_UNSPECIFIED);
    refused.set_abandoned(true);
    refused.set_refusal(v1::JOB_REFUSAL_TOO_LARGE);
    refused.set_failure_detail("measuring it takes 480 GB");
    send(a, refused);
  }
  EXPECT_EQ(job(id).state, v1::JOB_STATE_DEAD);
  EXPECT_THAT(job(id).detail, HasSubstr("takes 480 GB"));
  EXPECT_EQ(number("SELECT dead_jobs FROM study_workloads"), 1);
  EXPECT_EQ(number("SELECT losses FROM agents"), 0);
  EXPECT_EQ(device("d").jobs_failed, 0);
  queue(study);
  send(a, result_of(take_one(a)));
  EXPECT_EQ(number("SELECT dead_jobs FROM study_workloads"), 0);
}

TEST_P(QueueTest, TheBestNeverGetsWorse) {
  const std::string study = make_study("ci");
  Asker a;
  double best = 1e9;
  Rng rng(4);
  for (int i = 0; i < 10; ++i) {
    queue(study);
    const double time = 1 + std::floor(100 * rng.uniform());
    send(a, result_of(take_one(a), time));
    best = std::min(best, time + 0.5);
    EXPECT_EQ(number(absl::StrFormat("SELECT count(*) FROM study_workloads WHERE best_us = %.1f",
                                     best)), 1);
  }
}

// Of a device that estimates among those that measure: stored and spent, no competitor.
TEST_P(QueueTest, ATimeOfAnotherKindIsNeverTheStudysBest) {
  const std::string study = make_study("ci");
  Asker a;
  const auto bring = [&](double us, TimeKind kind) {
    queue(study);
    v1::JobResult result = result_of(take_one(a), us);
    for (v1::CandidateOutcome& outcome : *result.mutable_outcomes()) {
      outcome.mutable_measurement()->set_time_kind(to_proto(kind));
    }
    result.set_digest(result_digest(result));
    EXPECT_EQ(send(a, result).kind(), v1::RECEIPT_KIND_STORED);
    const std::string best = "SELECT count(*) FROM study_workloads WHERE best_us = 100.5";
    EXPECT_EQ(number(best), kind == TimeKind::kMeasured || us < 100 ? 1 : 0);
  };
  bring(200, TimeKind::kEstimated);
  EXPECT_EQ(number("SELECT count(*) FROM study_workloads WHERE best_us = 0"), 1);
  bring(100, TimeKind::kMeasured);
  bring(1, TimeKind::kEstimated);
  bring(2, TimeKind::kEmulated);
  bring(3, TimeKind::kSimulated);
  EXPECT_EQ(number("SELECT count(*) FROM measurements WHERE time_kind = 30"),
            number("SELECT count(*) FROM measurements WHERE time_kind = 0") * 2);
  EXPECT_EQ(number("SELECT sum(trials) FROM studies"), number("SELECT count(*) FROM measurements"));
}

TEST_P(QueueTest, ResultsForCancelledStudiesChangeNothing) {
  const std::string study = make_study("ci");
  const int64_t id = queue(study), waiting = queue(study);
  Asker a;
  const v1::Job claimed = take_one(a);
  write([&](WriteTransaction& tx) -> absl::Status {
    ASSIGN_OR_RETURN(std::optional<StudyRow> row, find_study(tx, study));
    return end_study(tx, *row, v1::STUDY_STATE_CANCELLED, "", now_, &changes_);
  });
  EXPECT_EQ(job(waiting).state, v1::JOB_STATE_CANCELLED);
  const absl::StatusOr<v1::SynchronizeResponse> response = call(a, 1);
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->jobs_size(), 0);
  ASSERT_EQ(response->cancels_size(), 1);
  EXPECT_EQ(response->cancels(0).job(), job_name(id));
  EXPECT_EQ(send(a, result_of(claimed)).kind(), v1::RECEIPT_KIND_LEASE_LOST);
  EXPECT_EQ(job(id).state, v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(number("SELECT count(*) FROM measurements"), 0);
  EXPECT_EQ(number("SELECT trials FROM studies"), 0);
}

TEST_P(QueueTest, ANewerAgentsVerdictBlamesNobody) {
  const int64_t id = queue(make_study("ci"), 2);
  Asker a;
  v1::JobResult newer = result_of(take_one(a));
  newer.mutable_outcomes(1)->mutable_measurement()->set_verdict(static_cast<v1::Verdict>(99));
  newer.set_digest(result_digest(newer));
  const v1::Receipt receipt = send(a, newer);
  EXPECT_EQ(receipt.kind(), v1::RECEIPT_KIND_REFUSED);
  EXPECT_THAT(receipt.detail(), HasSubstr("verdict 99"));
  EXPECT_EQ(device("d").jobs_failed, 0);
  EXPECT_EQ(job(id).state, v1::JOB_STATE_QUEUED);
  EXPECT_EQ(number("SELECT count(*) FROM measurements"), 0);
}

TEST_P(QueueTest, ANewerAgentsFailureBlamesNobody) {
  const int64_t id = queue(make_study("ci"), 2);
  Asker a;
  const v1::JobResult newer = failure_of(take_one(a), static_cast<v1::Verdict>(99));
  const v1::Receipt receipt = send(a, newer);
  EXPECT_EQ(receipt.kind(), v1::RECEIPT_KIND_REFUSED);
  EXPECT_THAT(receipt.detail(), HasSubstr("verdict 99"));
  EXPECT_EQ(device("d").jobs_failed, 0);
  EXPECT_EQ(job(id).state, v1::JOB_STATE_QUEUED);
}

TEST_P(QueueTest, ARefusalBlamesNobody) {
  const int64_t id = queue(make_study("ci"));
  Asker a;
  for (int i = 0; i < 5; ++i) {
    now_ += 60'000;
    v1::JobResult refused = failure_of(take_one(a), v1::VERDICT_UNSPECIFIED);
    refused.set_abandoned(true);
    refused.set_refusal(v1::JOB_REFUSAL_VERSION);
    EXPECT_EQ(send(a, refused).kind(), v1::RECEIPT_KIND_STORED);
  }
  EXPECT_EQ(device("d").failures, 0);
  EXPECT_EQ(device("d").admission, v1::DEVICE_ADMISSION_OPEN);
  EXPECT_EQ(job(id).state, v1::JOB_STATE_QUEUED);
  EXPECT_GT(job(id).run_after, now_) << "not at once again";
  EXPECT_GT(number("SELECT losses FROM agents"), 0) << "it rests, if it goes on";
}

// ---- a long life --------------------------------------------------------------------------------

// Agents that work, crash, forget answers, repeat results and restart, at random: every job ends,
// nothing is measured twice, and counters say what is stored.
TEST_P(QueueTest, ARandomFleetLosesNothing) {
  rules_.quarantine_failures = 1'000'000;
  const std::string studies[] = {make_study("a"), make_study("b", 20)};
  for (int i = 0; i < 40; ++i) queue(studies[i % 2], 1 + i % 3);
  Rng rng(11);
  std::vector<Asker> askers;
  for (int i = 0; i < 4; ++i) {
    askers.push_back({.agent = absl::StrCat("a", i), .devices = {absl::StrCat("d", i)}});
  }
  std::vector<v1::JobResult> sent;
  const auto open = [&] {
    return number("SELECT count(*) FROM jobs WHERE state IN ('queued', 'leased')");
  };
  int steps = 0;
  for (; open() > 0 && steps < 3000; ++steps) {
    Asker& asker = askers[static_cast<size_t>(4 * rng.uniform())];
    now_ += static_cast<int64_t>(8000 * rng.uniform());
    const double what = rng.uniform();
    if (what < 0.1) {
      asker.session += "'";
      asker.held.clear();
    } else if (what < 0.2) {
      asker.held.clear();
    } else if (what < 0.3 && !sent.empty()) {
      asker.results = {sent[static_cast<size_t>(rng.uniform() * static_cast<double>(sent.size()))]};
    } else if (what < 0.35 && !asker.held.empty()) {
      asker.results = {failure_of(asker.held[0], v1::VERDICT_WORKER_LOST)};
      asker.held.erase(asker.held.begin());
    } else if (what < 0.8 && !asker.held.empty()) {
      asker.results = {result_of(asker.held[0], 1 + 99 * rng.uniform())};
      sent.push_back(asker.results[0]);
      asker.held.erase(asker.held.begin());
    }
    const absl::StatusOr<v1::SynchronizeResponse> response = call(asker, 1);
    ASSERT_TRUE(response.ok()) << response.status();
    for (const v1::CancelOrder& cancel : response->cancels()) {
      std::erase_if(asker.held, [&](const v1::Job& job) {
        return job.name() == cancel.job() && job.epoch() == cancel.epoch();
      });
    }
    if (steps % 3 == 0) expire();
  }
  EXPECT_LT(steps, 3000);
  EXPECT_EQ(number("SELECT count(*) FROM (SELECT candidate FROM measurements GROUP BY candidate "
                   "HAVING count(*) > 1) AS twice"), 0);
  EXPECT_EQ(number("SELECT sum(trials) FROM studies"), number("SELECT count(*) FROM measurements"));
  EXPECT_EQ(number("SELECT sum(trials) FROM study_workloads"),
            number("SELECT count(*) FROM measurements"));
  for (const std::string& study : studies) {
    EXPECT_EQ(number("SELECT max(sequence) - count(*) FROM events WHERE study = '" + study + "'"),
              0);
  }
}

}  // namespace
}  // namespace lw
