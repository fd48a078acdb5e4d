// Times that no target reaches: refused, kept for whoever wants to see them, and counted against a
// device only where another shows that the job can be done.
#include "tests/queue/queue_fixture.h"

namespace lw {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class BlameTest : public QueueTest {
 protected:
  std::string make_bounded(const std::string& client) {
    const std::string study = make_study(client);
    write([&](WriteTransaction& tx) {
      return tx.query("UPDATE study_workloads SET least_us = 5 WHERE study = ?", study).run();
    });
    return study;
  }
  // Everybody takes what there is; at a time of his own.
  v1::Receipt work(Asker& asker, double us) {
    const std::vector<v1::Job> jobs = take(asker);
    EXPECT_EQ(jobs.size(), 1u);
    return jobs.empty() ? v1::Receipt() : send(asker, result_of(jobs[0], us));
  }
  Asker a_{.agent = "a", .devices = {"a-0"}}, b_{.agent = "b", .devices = {"b-0"}};
};

INSTANTIATE_TEST_SUITE_P(Databases, BlameTest, ::testing::Values("sqlite", "postgres"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(BlameTest, AnImpossibleTimeLeadsNothingAndIsKeptWithTheReason) {
  const int64_t id = queue(make_bounded("ci"), 2);
  const v1::Job claimed = take_one(a_);
  v1::JobResult result = result_of(claimed, 10);
  *result.mutable_outcomes(1)->mutable_measurement() =
      to_proto(make_measurement(1, {0.001, 20, 21}));  // one sample is enough
  result.mutable_outcomes(1)->mutable_measurement()->clear_trace();
  result.set_digest(result_digest(result));
  const v1::Receipt receipt = send(a_, result);
  EXPECT_EQ(receipt.kind(), v1::RECEIPT_KIND_REFUSED);
  EXPECT_THAT(receipt.detail(), HasSubstr("impossible time: 0.001 us"));
  EXPECT_EQ(number("SELECT count(*) FROM study_workloads WHERE best_us > 0"), 0);
  EXPECT_EQ(number("SELECT sum(trials) FROM studies"), 0);
  EXPECT_EQ(number("SELECT count(*) FROM measurements"), 1) << "nor is the rest believed";
  EXPECT_EQ(number("SELECT count(*) FROM measurements WHERE annulled LIKE '%impossible time%' AND "
                   "actor = 'agent/a' AND device = 'a-0'"), 1);
  EXPECT_EQ(number("SELECT count(*) FROM candidates WHERE eligible <> 0"), 0);
  EXPECT_THAT(text("SELECT subject FROM audit WHERE actor = 'agent/a'"), HasSubstr("devices/a-0"));
  EXPECT_THAT(text("SELECT outcome FROM audit WHERE actor = 'agent/a'"), HasSubstr("impossible"));
  EXPECT_EQ(job(id).state, v1::JOB_STATE_QUEUED);
  EXPECT_THAT(device("a-0").evidence, HasSubstr("impossible time"));
  EXPECT_EQ(device("a-0").jobs_failed, 1);

  // Another agent is asked first, for a while.
  now_ += 5000;
  EXPECT_EQ(take(a_).size(), 0u);
  EXPECT_EQ(send(b_, result_of(take_one(b_), 10)).kind(), v1::RECEIPT_KIND_STORED);
  EXPECT_EQ(number("SELECT sum(trials) FROM studies"), 2);
}

TEST_P(BlameTest, WhoIsAloneIsAskedAgain) {
  queue(make_bounded("ci"));
  work(a_, 1);
  now_ += 5000;
  EXPECT_EQ(take(a_).size(), 0u);
  now_ += rules_.confirm_ms;
  EXPECT_EQ(work(a_, 10).kind(), v1::RECEIPT_KIND_STORED);
  EXPECT_THAT(device("a-0").evidence, HasSubstr("\"settled\":false"));
}

TEST_P(BlameTest, OthersWhoDoTheJobCloseADeviceThatLies) {
  for (int i = 0; i < rules_.quarantine_failures; ++i) {
    EXPECT_EQ(device("a-0").reason, "");
    queue(make_bounded("ci"));
    work(a_, 1);
    queue(make_study("other"));
    work(a_, 10);                          // what it does well between does not hide it
    now_ += 5000;
    EXPECT_EQ(work(b_, 10).kind(), v1::RECEIPT_KIND_STORED);
  }
  EXPECT_EQ(device("a-0").admission, v1::DEVICE_ADMISSION_QUARANTINED);
  EXPECT_THAT(device("a-0").reason, HasSubstr("3 jobs that others did at possible times"));
  EXPECT_EQ(device("b-0").admission, v1::DEVICE_ADMISSION_OPEN);
  // Once it is open again it needs three more.
  write([](WriteTransaction& tx) {
    return tx.query("UPDATE devices SET admission = 'open', reason = ''").run();
  });
  queue(make_bounded("ci"));
  work(a_, 1);
  now_ += 5000;
  work(b_, 10);
  EXPECT_EQ(device("a-0").admission, v1::DEVICE_ADMISSION_OPEN);
}

// The description of their target says too little: all fail alike, and none is closed for it.
TEST_P(BlameTest, AWrongDescriptionClosesNobody) {
  rules_.most_attempts = 100;
  for (int i = 0; i < 3 * rules_.quarantine_failures; ++i) {
    queue(make_bounded(absl::StrCat("client", i)));
    for (Asker* asker : {&a_, &b_}) {
      now_ += 1'000'000;
      work(*asker, 1);
    }
    // As the agents say it themselves, who know the same bound.
    now_ += 1'000'000;
    v1::JobResult none = result_of(take_one(a_));
    *none.mutable_outcomes(0)->mutable_measurement() =
        to_proto(make_failure(1, Verdict::kDeviceUnhealthy));
    none.mutable_outcomes(0)->mutable_measurement()->set_detail("impossible time: 1 us a call");
    none.mutable_outcomes(0)->mutable_measurement()->clear_trace();
    none.set_digest(result_digest(none));
    EXPECT_EQ(send(a_, none).kind(), v1::RECEIPT_KIND_STORED);
    write([](WriteTransaction& tx) {
      return tx.query("UPDATE jobs SET state = 'cancelled', ended_ms = 1").run();
    });
  }
  EXPECT_EQ(device("a-0").admission, v1::DEVICE_ADMISSION_OPEN) << device("a-0").reason;
  EXPECT_EQ(device("b-0").admission, v1::DEVICE_ADMISSION_OPEN) << device("b-0").reason;
}

TEST_P(BlameTest, NobodyOutvotesOthersBySamples) {
  queue(make_study("ci"));
  v1::JobResult result = result_of(take_one(a_));
  v1::Measurement& m = *result.mutable_outcomes(0)->mutable_measurement();
  for (int i = 0; i < 1000; ++i) m.add_samples_us(10);
  result.set_digest(result_digest(result));
  const v1::Receipt receipt = send(a_, result);
  EXPECT_EQ(receipt.kind(), v1::RECEIPT_KIND_REFUSED);
  EXPECT_THAT(receipt.detail(), HasSubstr("1002 samples"));
}

}  // namespace
}  // namespace lw
