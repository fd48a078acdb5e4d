// A queue with agents that are scripts, on a clock that the test moves: what the tests of leases
// share. Everything goes through synchronize(), as for a real agent.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/net/times.h"
#include "src/serve/messages/names.h"
#include "src/serve/queue/devices.h"
#include "src/serve/queue/synchronize.h"
#include "src/serve/studies/studies.h"
#include "tests/support/postgres_fixture.h"
#include "tests/support/store_fixture.h"
#include "tuner_db/messages/messages.h"

namespace lw {

namespace v1 = loopwright::v1;

// "sqlite" in `file`, or "postgres"; null where that is not installed.
inline std::shared_ptr<Database> open_kind(const std::string& kind, const std::string& file) {
  if (kind == "sqlite") return *open_database(file);
  PostgresCluster* cluster = PostgresCluster::get();
  return cluster == nullptr ? nullptr : *open_database(cluster->fresh());
}

// An agent's call, and what it remembers.
struct Asker {
  std::string agent = "a", session = "s1";
  std::vector<std::string> devices = {"d"};
  std::string target = "x86_test", backend = "llvm", fingerprint = "";
  std::map<std::string, Claims> prepared;
  v1::DeviceHealth health = v1::DEVICE_HEALTH_OK;
  bool leaving = false, is_latest = true;
  std::vector<v1::Job> held;               // that it says it holds
  std::vector<v1::JobResult> results;      // to be sent with the next call
};

class QueueTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (database_ == nullptr) GTEST_SKIP() << "PostgreSQL is not installed";
    store_ = make_store(database_);
  }

  template <class Body>
  void write(Body body) {
    const absl::Status status = database_->write(5, body);
    ASSERT_TRUE(status.ok()) << status;
  }
  int64_t number(const std::string& sql) {
    int64_t found = -1;
    EXPECT_TRUE(database_->read(5, [&](Transaction& tx) {
      Query query = tx.query(sql);
      if (query.next()) found = query.integer(0);
      return query.status();
    }).ok());
    return found;
  }
  std::string text(const std::string& sql) {
    std::string found;
    EXPECT_TRUE(database_->read(5, [&](Transaction& tx) {
      Query query = tx.query(sql);
      if (query.next()) found = query.text(0);
      return query.status();
    }).ok());
    return found;
  }

  // A study that runs on devices of the test's target; its workload has a row.
  std::string make_study(const std::string& client, int priority = 0, int workloads = 1) {
    StudyRow study;
    study.id = absl::StrCat("STUDY", ++studies_);
    study.client = client;
    study.state = v1::STUDY_STATE_RUNNING;
    study.priority = priority;
    study.spec.set_trials(100);
    for (int i = 0; i < workloads; ++i) study.spec.add_workloads()->set_name(absl::StrCat("w", i));
    study.created_ms = study.updated_ms = now_;
    write([&](WriteTransaction& tx) -> absl::Status {
      for (int i = 0; i < workloads; ++i) {
        const Key key = put_key(*store_in(tx), 64 * (i + 1));
        study.target = study.device_target = key.target;
        if (i == 0) RETURN_IF_ERROR(insert_study(tx, study));
        StudyWorkloadRow row;
        row.study = study.id;
        row.position = i;
        row.name = absl::StrCat("w", i);
        row.workload = key.workload;
        row.backend = "llvm";
        row.threads = 1;
        row.cache = "warm";
        RETURN_IF_ERROR(insert_workload(tx, row));
      }
      return absl::OkStatus();
    });
    return study.id;
  }

  // A queued job; its id.
  int64_t queue(const std::string& study, int candidates = 1, int position = 0,
                int64_t run_after = 0, const std::string& target = "x86_test");

  v1::SynchronizeRequest request_of(const Asker& asker, int wanted);

  // One call; jobs that come are held from then on, results are sent once.
  absl::StatusOr<v1::SynchronizeResponse> call(Asker& asker, int wanted = 1) {
    const v1::SynchronizeRequest request = request_of(asker, wanted);
    RETURN_IF_ERROR(check_request(request));
    SyncCall call;
    call.request = &request;
    call.is_latest = asker.is_latest;
    call.new_devices_wait = new_devices_wait_;
    call.prepared = asker.prepared;
    SyncAnswer answer;
    RETURN_IF_ERROR(database_->write(5, [&](WriteTransaction& tx) {
      return synchronize(tx, call, shares_, rules_, now_, &answer);
    }));
    asker.results.clear();
    for (const JobRow& job : answer.claimed) {
      asker.prepared[job.device] = {job.study, job.position, 1};
    }
    for (const v1::Job& job : answer.response.jobs()) asker.held.push_back(job);
    return answer.response;
  }
  // One call that must work; the jobs that came.
  std::vector<v1::Job> take(Asker& asker, int wanted = 1) {
    const absl::StatusOr<v1::SynchronizeResponse> response = call(asker, wanted);
    EXPECT_TRUE(response.ok()) << response.status();
    if (!response.ok()) return {};
    return {response->jobs().begin(), response->jobs().end()};
  }
  v1::Job take_one(Asker& asker) {
    const std::vector<v1::Job> jobs = take(asker);
    EXPECT_EQ(jobs.size(), 1u);
    return jobs.empty() ? v1::Job() : jobs[0];
  }

  static v1::JobResult result_of(const v1::Job& job, double time_us = 10) {
    v1::JobResult result;
    result.set_job(job.name());
    result.set_epoch(job.epoch());
    for (const v1::CandidateSpec& candidate : job.candidates()) {
      v1::CandidateOutcome& outcome = *result.add_outcomes();
      outcome.set_index(candidate.index());
      *outcome.mutable_measurement() = to_proto(make_measurement(1, {time_us, time_us + 1}));
      outcome.mutable_measurement()->clear_trace();
    }
    result.set_digest(result_digest(result));
    return result;
  }
  static v1::JobResult failure_of(const v1::Job& job, v1::Verdict verdict) {
    v1::JobResult result;
    result.set_job(job.name());
    result.set_epoch(job.epoch());
    result.set_failure(verdict);
    result.set_failure_detail("the fan stands still");
    return result;
  }
  // Sends the result, holding the job no longer; the receipt.
  v1::Receipt send(Asker& asker, const v1::JobResult& result) {
    std::erase_if(asker.held, [&](const v1::Job& job) { return job.name() == result.job(); });
    asker.results = {result};
    const absl::StatusOr<v1::SynchronizeResponse> response = call(asker, 0);
    EXPECT_TRUE(response.ok()) << response.status();
    if (!response.ok() || response->receipts_size() != 1) return {};
    return response->receipts(0);
  }

  // The job ends after so many seconds on the device, which tells nobody of the time between,
  void finish(Asker& asker, const v1::Job& job, double seconds) {
    v1::JobResult result = result_of(job);
    *result.mutable_run_time() = duration_of(seconds);
    result.set_digest(result_digest(result));
    EXPECT_EQ(send(asker, result).kind(), v1::RECEIPT_KIND_STORED);
  }
  // or which takes them.
  void work(Asker& asker, const v1::Job& job, double seconds) {
    now_ += static_cast<int64_t>(1e3 * seconds);
    finish(asker, job, seconds);
  }

  int expire() {
    int count = 0;
    write([&](WriteTransaction& tx) -> absl::Status {
      Changes changes;
      ASSIGN_OR_RETURN(count, expire_leases(tx, rules_, 100, now_, &changes));
      return absl::OkStatus();
    });
    return count;
  }
  // The agent is never heard of again, and its lease runs out.
  void vanish(Asker& asker) {
    asker.held.clear();
    now_ += rules_.ttl_ms + 1;
    EXPECT_EQ(expire(), 1);
  }
  JobRow job(int64_t id) {
    JobRow found;
    EXPECT_TRUE(database_->read(5, [&](Transaction& tx) -> absl::Status {
      ASSIGN_OR_RETURN(std::optional<JobRow> row, find_job(tx, id));
      if (row) found = *row;
      return absl::OkStatus();
    }).ok());
    return found;
  }
  DeviceRow device(const std::string& id) {
    DeviceRow found;
    EXPECT_TRUE(database_->read(5, [&](Transaction& tx) -> absl::Status {
      ASSIGN_OR_RETURN(std::optional<DeviceRow> row, find_device(tx, id));
      if (row) found = *row;
      return absl::OkStatus();
    }).ok());
    return found;
  }

  Scratch scratch_;
  bool new_devices_wait_ = false;
  std::shared_ptr<Database> database_ = open_kind(GetParam(), scratch_.file);
  std::unique_ptr<Store> store_;
  int64_t now_ = 1'800'000'000'000;
  std::string backend_ = "llvm";           // of jobs that are queued
  // Agents are trusted where a test is about nothing else.
  LeaseRules rules_{.unproven_jobs = 1 << 30, .probation_ms = 0, .free_losses = 1 << 30};
  Shares shares_;
  Changes changes_;
  int studies_ = 0, traces_ = 0;
};

}  // namespace lw
