// What a service keeps: who has left, what is deleted and forgotten, how much callers may store.
#include <chrono>
#include <functional>
#include <thread>

#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "src/serve/page/views.h"
#include "tests/serve/api_fixture.h"
#include "tuner_db/schema/schema.h"

namespace lw {
namespace {

// ---- who is there -------------------------------------------------------------------------------

TEST_P(ApiTest, AnAgentThatHasLeftIsOfflineWhereverItIsShown) {
  v1::SynchronizeResponse response;
  v1::SynchronizeRequest call = agent_call();
  const auto shown = [&] {
    v1::ListDevicesResponse devices;
    v1::ListAgentsResponse agents;
    v1::Fleet fleet;
    EXPECT_TRUE(ask(daemon_->fleet, &v1::FleetService::Stub::ListDevices, v1::ListDevicesRequest(),
                    &devices).ok());
    EXPECT_TRUE(ask(daemon_->fleet, &v1::FleetService::Stub::ListAgents, v1::ListAgentsRequest(),
                    &agents).ok());
    EXPECT_TRUE(ask(daemon_->fleet, &v1::FleetService::Stub::GetFleet, v1::GetFleetRequest(),
                    &fleet).ok());
    const ViewContext context{*daemon_->database, daemon_->service->core->now_ms()};
    const nlohmann::ordered_json page = *view_overview(context);
    return std::vector<int>{devices.devices(0).online(), agents.agents(0).online(),
                            static_cast<int>(fleet.classes(0).online()),
                            static_cast<int>(fleet.classes(0).idle()),
                            page["devices"]["online"].get<int>(),
                            page["agents"]["online"].get<int>(),
                            (*view_devices(context, {}))["devices"][0]["online"].get<bool>(),
                            (*view_agents(context, {}))["agents"][0]["online"].get<bool>()};
  };
  ASSERT_TRUE(ask(daemon_->agents, &v1::AgentService::Stub::Synchronize, call, &response).ok());
  EXPECT_EQ(shown(), std::vector<int>({1, 1, 1, 1, 1, 1, 1, 1}));
  call.set_sequence(call.sequence() + 1);
  call.set_leaving(true);
  ASSERT_TRUE(ask(daemon_->agents, &v1::AgentService::Stub::Synchronize, call, &response).ok());
  EXPECT_EQ(shown(), std::vector<int>(8, 0));
  daemon_->service->house.before_metrics();
  const std::string metrics = daemon_->service->core->metrics.text();
  EXPECT_NE(metrics.find("loopwright_agents_online 0\n"), std::string::npos);
  EXPECT_NE(metrics.find("loopwright_devices{state=\"offline\"} 1\n"), std::string::npos);
}

// ---- what is deleted ----------------------------------------------------------------------------

class DeletionTest : public ApiTest {
 protected:
  absl::Status erase(const std::string& study) {
    google::longrunning::DeleteOperationRequest request;
    google::protobuf::Empty nothing;
    request.set_name(operation_name(id_of(study)));
    return ask(daemon_->operations, &google::longrunning::Operations::Stub::DeleteOperation,
               request, &nothing);
  }
  std::string ended_study() {
    std::string name;
    v1::Study study;
    EXPECT_TRUE(create(study_request(), &name).ok());
    EXPECT_TRUE(cancel(name, "", &study).ok());
    return name;
  }
  int64_t number(const std::string& sql) {
    int64_t found = -1;
    EXPECT_TRUE(daemon_->database->read(5, [&](Transaction& tx) {
      Query query = tx.query(sql);
      if (query.next()) found = query.integer(0);
      return query.status();
    }).ok());
    return found;
  }
  // Rows of all tables that hold something of studies.
  int64_t rows_of_studies() {
    return number("SELECT (SELECT count(*) FROM studies) + "
                  "(SELECT count(*) FROM study_workloads) + (SELECT count(*) FROM jobs) + (SELECT count(*) FROM events) + "
                  "(SELECT count(*) FROM orphans) + (SELECT count(*) FROM workloads)");
  }
  bool await(const std::function<bool()>& what) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!what()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return true;
  }
  absl::Status watch(const std::string& study) {
    grpc::ClientContext context;
    v1::WatchStudyRequest request;
    request.set_name(study);
    const auto stream = daemon_->tuning->WatchStudy(&context, request);
    for (v1::StudyEvent event; stream->Read(&event);) {}
    return from_grpc(stream->Finish());
  }
};

INSTANTIATE_TEST_SUITE_P(Databases, DeletionTest, ::testing::Values("sqlite", "postgres"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(DeletionTest, AnEndedStudyIsDeletedWithAllItsRows) {
  const std::string study = ended_study();
  JobRow job;
  job.state = v1::JOB_STATE_CANCELLED, job.ended_ms = 5;
  for (int i = 0; i < 700; ++i) add_job(study, job);  // more than go at once
  ASSERT_TRUE(erase(study).ok());
  v1::Study shown;
  EXPECT_EQ(reason_of(get(study, &shown)), v1::ERROR_REASON_STUDY_NOT_FOUND);
  EXPECT_EQ(reason_of(cancel(study, "", &shown)), v1::ERROR_REASON_STUDY_NOT_FOUND);
  EXPECT_EQ(reason_of(erase(study)), v1::ERROR_REASON_OPERATION_NOT_FOUND);
  EXPECT_EQ(reason_of(watch(study)), v1::ERROR_REASON_STUDY_NOT_FOUND) << "watchers come to an end";
  v1::ListStudiesResponse listed;
  ASSERT_TRUE(ask(daemon_->tuning, &v1::TuningService::Stub::ListStudies, v1::ListStudiesRequest(),
                  &listed).ok());
  EXPECT_EQ(listed.studies_size(), 0);
  const ViewContext context{*daemon_->database, daemon_->service->core->now_ms()};
  EXPECT_EQ((*view_studies(context, {}))["studies"].size(), 0u);
  EXPECT_FALSE(view_study(context, id_of(study)).ok());
  const nlohmann::ordered_json overview = *view_overview(context);
  EXPECT_TRUE(overview["studies"].empty()) << overview;
  EXPECT_TRUE(await([&] { return rows_of_studies() == 0; }));
  const std::string counted = "loopwright_forgotten_total{what=\"studies\"} 1\n";
  EXPECT_TRUE(await([&] {
    return daemon_->service->core->metrics.text().find(counted) != std::string::npos;
  }));
  v1::ListAuditResponse audit;
  ASSERT_TRUE(ask(daemon_->fleet, &v1::FleetService::Stub::ListAudit, v1::ListAuditRequest(),
                  &audit).ok());
  const auto done = std::find_if(
      audit.entries().begin(), audit.entries().end(), [](const v1::AuditEntry& entry) {
        return entry.method().find("DeleteOperation") != std::string::npos &&
               entry.outcome() == "OK";
      });
  ASSERT_NE(done, audit.entries().end());
  EXPECT_EQ(done->subject(), study);
  EXPECT_EQ(done->actor(), "admin/local");
}

TEST_P(DeletionTest, WhatHasNotEndedIsRefusedWithWhatToDo) {
  std::string study;
  ASSERT_TRUE(create(study_request(), &study).ok());
  const absl::Status refused = erase(study);
  EXPECT_EQ(reason_of(refused), v1::ERROR_REASON_WRONG_STATE) << refused;
  EXPECT_NE(refused.message().find("loopwright cancel"), std::string::npos) << refused;
  v1::Study shown;
  EXPECT_TRUE(get(study, &shown).ok());
  EXPECT_EQ(reason_of(erase("studies/NONE")), v1::ERROR_REASON_OPERATION_NOT_FOUND);
  google::longrunning::DeleteOperationRequest request;
  google::protobuf::Empty nothing;
  request.set_name("studies/x");
  expect_bad(ask(daemon_->operations, &google::longrunning::Operations::Stub::DeleteOperation,
                 request, &nothing), "name");
}

// The program of a study that is queued again stays.
TEST_P(DeletionTest, AnotherStudyOfTheSameWorkloadKeepsIt) {
  const std::string first = ended_study();
  std::string second;
  ASSERT_TRUE(create(study_request(), &second).ok());
  ASSERT_TRUE(erase(first).ok());
  EXPECT_TRUE(await([&] { return number("SELECT count(*) FROM studies") == 1; }));
  EXPECT_EQ(number("SELECT count(*) FROM workloads"), 1);
  EXPECT_THAT(*make_store(daemon_->database)->check(), ::testing::IsEmpty());
}

TEST_P(DeletionTest, TheDaemonForgetsInTime) {
  const std::string study = ended_study();
  JobRow job;
  job.state = v1::JOB_STATE_CANCELLED, job.ended_ms = 5;
  for (int i = 0; i < 400; ++i) add_job(study, job);
  ServiceOptions options = idle();
  options.forget_ms = 10;
  options.config.retention = {1e-7, 1e-7, 1e-7, 1e-7, 0, 1e-7};  // some 9 ms
  start(options);
  EXPECT_TRUE(await([&] {
    return number("SELECT (SELECT count(*) FROM jobs WHERE length(payload) > 0) + "
                  "(SELECT count(*) FROM audit) + (SELECT count(*) FROM events) - 1") == 0;
  }));
  EXPECT_TRUE(watch(study).ok()) << "its last event ends the stream";
  v1::Study shown;
  EXPECT_TRUE(get(study, &shown).ok()) << "ended studies are kept";
  EXPECT_NE(daemon_->service->core->metrics.text().find(
                "loopwright_forgotten_total{what=\"payloads\"} 400\n"), std::string::npos);
  options.config.retention.study_days = 1e-7;
  start(options);
  EXPECT_TRUE(await([&] { return rows_of_studies() == 0; }));
}

// ---- what a client may store --------------------------------------------------------------------

const Caller kCi = {Identity{CallerRole::kClient, "ci", true}, "ipv4:192.0.2.1:4000", {}, {}};

TEST_P(DeletionTest, AClientKeepsSoManyStudiesAndBytesOfThem) {
  ServiceOptions options = idle();
  options.config.quotas.studies_per_client = 2;
  start(options);
  const std::string first = ended_study();
  ended_study();
  const absl::Status full = create(study_request());
  EXPECT_EQ(reason_of(full), v1::ERROR_REASON_QUOTA_EXCEEDED) << full;
  EXPECT_NE(full.message().find("loopwright delete"), std::string::npos) << full;
  google::longrunning::Operation operation;
  EXPECT_TRUE(daemon_->service->studies.create_study(kCi, study_request(), &operation).ok())
      << "another's are others'";
  ASSERT_TRUE(erase(first).ok());
  EXPECT_TRUE(await([&] { return create(study_request()).ok(); })) << "there is room again";
  options.config.quotas.studies_per_client = 100;
  options.config.quotas.spec_bytes_per_client =
      number("SELECT spec_bytes FROM client_usage WHERE client = 'admin/local'") + 1;
  start(options);
  const absl::Status large = create(study_request());
  EXPECT_EQ(reason_of(large), v1::ERROR_REASON_QUOTA_EXCEEDED) << large;
  EXPECT_THAT(*make_store(daemon_->database)->check(), ::testing::IsEmpty());
}

TEST_P(DeletionTest, AClientPutsSoManyMeasurementsThatNobodyConfirms) {
  ServiceOptions options = idle();
  options.config.quotas.unconfirmed_per_client = 2;
  start(options);
  v1::PutRecordsResponse stored;
  const auto put = [&](const Caller& who, int trace) {
    v1::PutRecordsRequest request = records_request();
    *request.mutable_records(0)->mutable_measurement() =
        to_proto(make_measurement(trace, {10, 11}));
    return daemon_->service->schedules.put_records(who, request, &stored);
  };
  EXPECT_TRUE(put(kCi, 1).ok());
  EXPECT_TRUE(put(kCi, 2).ok());
  const absl::Status full = put(kCi, 3);
  EXPECT_EQ(reason_of(full), v1::ERROR_REASON_QUOTA_EXCEEDED) << full;
  EXPECT_EQ(number("SELECT count(*) FROM measurements"), 2) << "nothing of it is there";
  EXPECT_TRUE(put(kCi, 2).ok()) << "it is there already";
  const Caller admin = {Identity{CallerRole::kAdmin, "root", true}, "ipv4:192.0.2.2:4000", {}, {}};
  EXPECT_TRUE(put(admin, 1).ok()) << "confirms it";
  EXPECT_EQ(number("SELECT unconfirmed FROM client_usage WHERE client = 'client/ci'"), 1);
  EXPECT_TRUE(put(kCi, 3).ok()) << "there is room again";
  EXPECT_THAT(*make_store(daemon_->database)->check(), ::testing::IsEmpty());
  ASSERT_TRUE(make_store(daemon_->database)->prune(1, 0).ok());
  EXPECT_EQ(number("SELECT unconfirmed FROM client_usage WHERE client = 'client/ci'"), 0);
  EXPECT_THAT(*make_store(daemon_->database)->check(), ::testing::IsEmpty());
}

// Of a database that an older daemon wrote.
TEST_P(DeletionTest, WhatClientsHaveIsCountedByTheMigration) {
  google::longrunning::Operation operation;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(daemon_->service->studies.create_study(kCi, study_request(), &operation).ok());
  }
  v1::PutRecordsResponse stored;
  ASSERT_TRUE(daemon_->service->schedules.put_records(kCi, records_request(), &stored).ok());
  ASSERT_TRUE(create(study_request()).ok());
  std::string counting;
  for (const std::string& step : schema_steps()) {
    const size_t begin = step.find("INSERT INTO client_usage");
    if (begin != std::string::npos) counting = step.substr(begin, step.find(';', begin) - begin);
  }
  ASSERT_TRUE(daemon_->database->write(5, [&](WriteTransaction& tx) -> absl::Status {
    RETURN_IF_ERROR(tx.run("UPDATE studies SET actor = '' WHERE client = 'ci'"));
    RETURN_IF_ERROR(tx.run("DELETE FROM client_usage"));
    return tx.run(counting);
  }).ok());
  EXPECT_EQ(number("SELECT studies FROM client_usage WHERE client = 'client/ci'"), 2);
  EXPECT_EQ(number("SELECT unconfirmed FROM client_usage WHERE client = 'client/ci'"), 1);
  EXPECT_EQ(number("SELECT studies FROM client_usage WHERE client = 'admin/local'"), 1);
  EXPECT_THAT(*make_store(daemon_->database)->check(), ::testing::IsEmpty());
}

}  // namespace
}  // namespace lw
