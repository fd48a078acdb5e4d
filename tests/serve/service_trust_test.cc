// Whose records compilers are given: what a client puts is kept, with its name, and decides nothing.
#include "tests/serve/study_fixture.h"
#include "tuner_db/messages/messages.h"

namespace lw {
namespace {

class ServiceTrust : public StudyTest {
 protected:
  // The measurement of the trace `i`, so fast, through the daemon.
  absl::Status put(const Caller& who, int i, double us, Verdict verdict = Verdict::kOk,
                   Daemon* daemon = nullptr) {
    v1::PutRecordsRequest request;
    request.set_request_id(fresh_id());
    v1::Record& record = *request.add_records();
    Measurement m = make_measurement(i, {us, us, us});
    m.verdict = verdict;
    if (verdict != Verdict::kOk) {
      m.samples_us.clear();
      m.time_us = m.ci_low_us = m.ci_high_us = 0;
      m.verified = false;
    }
    *record.mutable_key() = to_proto(key_);
    *record.mutable_measurement() = to_proto(m);
    *record.mutable_workload() = to_proto(make_workload(64));
    *record.mutable_target() = to_proto(make_target());
    v1::PutRecordsResponse response;
    Service& service = *(daemon == nullptr ? daemon_ : *daemon).service;
    return service.schedules.put_records(who, request, &response);
  }

  double served(Daemon* daemon = nullptr) {
    return StudyTest::served(daemon == nullptr ? daemon_ : *daemon, key_);
  }

  Scratch scratch_;
  Daemon daemon_{scratch_.file};
  const Key key_ = make_key(make_workload(64), make_target());
};

TEST_F(ServiceTrust, WhatAClientPutsDecidesNothing) {
  const Caller crook = caller(CallerRole::kClient, "crook");
  ASSERT_TRUE(put(crook, 1, 50).ok());
  EXPECT_EQ(served(), 0) << "not even where there is nothing else";
  ASSERT_TRUE(put(caller(CallerRole::kAdmin, "boss"), 2, 40).ok());
  ASSERT_TRUE(eventually([&] { return served() == 40; }));
  ASSERT_TRUE(put(crook, 3, 1).ok());
  EXPECT_EQ(served(), 40) << "forged: forty times as fast";
  ASSERT_TRUE(put(crook, 2, 0, Verdict::kWrongResult).ok());
  ASSERT_TRUE(put(crook, 2, 0, Verdict::kCrash).ok());
  EXPECT_EQ(served(), 40) << "forged: that the best is wrong";
  ASSERT_TRUE(put(crook, 2, 400).ok());
  EXPECT_EQ(served(), 40) << "forged: that the best is slow";
  ASSERT_TRUE(put(caller(CallerRole::kImporter, "nightly"), 4, 30).ok());
  EXPECT_TRUE(eventually([&] { return served() == 30; }));

  // All of it is there, with who said it.
  EXPECT_EQ(number(*daemon_.database, "SELECT count(*) FROM measurements WHERE counts = 0 AND "
                                      "actor = 'client/crook'"), 5);
  EXPECT_EQ(number(*daemon_.database, "SELECT count(*) FROM measurements WHERE counts <> 0"), 2);
  EXPECT_EQ(number(*daemon_.database, "SELECT count(*) FROM audit WHERE actor = 'client/crook' AND "
                                      "subject <> ''"), 5);
}

// Through a daemon's export and another's import, of who may say so.
TEST_F(ServiceTrust, WithdrawalsTravelWithTheirRecords) {
  const Caller boss = caller(CallerRole::kAdmin, "boss");
  ASSERT_TRUE(put(boss, 1, 1).ok());
  ASSERT_TRUE(put(boss, 2, 40).ok());
  v1::WithdrawRecordRequest withdraw;
  withdraw.set_request_id(fresh_id());
  *withdraw.mutable_key() = to_proto(key_);
  withdraw.set_trace(make_measurement(1, {1}).trace);
  withdraw.set_reason("forged");
  v1::WithdrawnRecord withdrawn;
  ASSERT_TRUE(daemon_.service->schedules.withdraw_record(boss, withdraw, &withdrawn).ok());
  v1::ExportRecordsResponse all;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  const auto stream = daemon_.schedules->ExportRecords(&context, {});
  for (v1::ExportRecordsResponse some; stream->Read(&some);) all.MergeFrom(some);
  ASSERT_TRUE(stream->Finish().ok());
  ASSERT_EQ(all.records_size(), 2);

  Scratch scratch;
  Daemon other(scratch.file);
  v1::PutRecordsRequest put_all;
  v1::PutRecordsResponse stored;
  *put_all.mutable_records() = all.records();
  put_all.set_request_id(fresh_id());
  ASSERT_TRUE(other.service->schedules.put_records(boss, put_all, &stored).ok());
  EXPECT_EQ(stored.stored(), 2);
  EXPECT_EQ(served(&other), 40) << "at once";
  EXPECT_EQ(number(*other.database, "SELECT count(*) FROM withdrawn WHERE reason = 'forged' AND "
                                    "actor = 'admin/boss'"), 1);
  // A client's word withdraws nothing.
  for (v1::Record& record : *put_all.mutable_records()) {
    record.mutable_withdrawal()->set_reason("mine is better");
  }
  put_all.set_request_id(fresh_id());
  const Caller crook = caller(CallerRole::kClient, "crook");
  ASSERT_TRUE(other.service->schedules.put_records(crook, put_all, &stored).ok());
  EXPECT_EQ(number(*other.database, "SELECT count(*) FROM withdrawn"), 1);
  EXPECT_EQ(served(&other), 40);
}

// Two daemons on one PostgreSQL: what one stores or withdraws the other gives out, or gives out no
// more, within a second.
TEST_F(ServiceTrust, WhatAnotherDaemonStoresIsSeen) {
  const std::string url = database_url("postgres", "");
  if (url.empty()) GTEST_SKIP() << "PostgreSQL is not installed";
  Daemon a(url), b(url);
  const Caller boss = caller(CallerRole::kAdmin, "boss");
  std::vector<double> waits_s;
  const auto expect_served = [&](double us) {
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_TRUE(eventually([&] { return served(&b) == us; })) << us << ", not " << served(&b);
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begun;
    waits_s.push_back(waited.count());
  };
  ASSERT_TRUE(put(boss, 1, 50, Verdict::kOk, &a).ok());
  expect_served(50);
  ASSERT_TRUE(put(boss, 2, 40, Verdict::kOk, &a).ok());
  expect_served(40);                       // of a key that was known
  ASSERT_TRUE(put(boss, 2, 0, Verdict::kWrongResult, &a).ok());
  expect_served(50);                       // what computes wrong is gone everywhere
  ASSERT_TRUE(put(boss, 3, 30, Verdict::kOk, &a).ok());
  expect_served(30);
  v1::WithdrawRecordRequest withdraw;
  withdraw.set_request_id(fresh_id());
  *withdraw.mutable_key() = to_proto(key_);
  withdraw.set_trace(make_measurement(3, {30}).trace);
  withdraw.set_reason("too good");
  v1::WithdrawnRecord withdrawn;
  const absl::Status status = a.service->schedules.withdraw_record(boss, withdraw, &withdrawn);
  ASSERT_TRUE(status.ok()) << status;
  expect_served(50);
  std::printf("longest until the other daemon gave it out: %.2f s\n",
              *std::max_element(waits_s.begin(), waits_s.end()));
}

}  // namespace
}  // namespace lw
