// Calls that last, and what surrounds all calls: watching, waiting, health, the audit log,
// stopping.
#include <atomic>

#include "tests/serve/api_fixture.h"

namespace lw {
namespace {

using ::testing::HasSubstr;

// ---- streams and waiting ------------------------------------------------------------------------

TEST_P(ApiTest, AWatchGivesEveryEventAndResumes) {
  std::string name;
  ASSERT_TRUE(create(study_request(), &name).ok());
  std::vector<v1::StudyEvent> events;
  std::thread watcher([&] {
    grpc::ClientContext context;
    v1::WatchStudyRequest request;
    request.set_name(name);
    auto reader = daemon_->tuning->WatchStudy(&context, request);
    v1::StudyEvent event;
    while (reader->Read(&event)) events.push_back(event);
    EXPECT_TRUE(reader->Finish().ok());
  });
  v1::Study study;
  EXPECT_TRUE(cancel(name, "", &study).ok());
  watcher.join();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind(), v1::StudyEvent::KIND_CREATED);
  EXPECT_EQ(events[1].kind(), v1::StudyEvent::KIND_ENDED);
  EXPECT_EQ(events[1].sequence(), 2);
  const auto rest = [&](int64_t after) {
    grpc::ClientContext context;
    v1::WatchStudyRequest request;
    request.set_name(name);
    request.set_after_sequence(after);
    auto reader = daemon_->tuning->WatchStudy(&context, request);
    v1::StudyEvent event;
    int count = 0;
    while (reader->Read(&event)) ++count;
    const absl::Status status = from_grpc(reader->Finish());
    if (after < 0) expect_bad(status, "after_sequence");
    return status.ok() ? count : -1;
  };
  EXPECT_EQ(rest(1), 1);
  EXPECT_EQ(rest(2), 0);
  EXPECT_EQ(rest(1000), 0);
  EXPECT_EQ(rest(-1), -1);
}

TEST_P(ApiTest, WatchersThatGoAwayLeaveNothingBehind) {
  std::string name;
  ASSERT_TRUE(create(study_request(), &name).ok());
  for (int round = 0; round < 30; ++round) {
    grpc::ClientContext context;
    v1::WatchStudyRequest request;
    request.set_name(name);
    auto reader = daemon_->tuning->WatchStudy(&context, request);
    v1::StudyEvent event;
    if (round % 2 == 0) EXPECT_TRUE(reader->Read(&event));
    context.TryCancel();
    while (reader->Read(&event)) {}
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  EXPECT_TRUE(eventually([&] { return daemon_->service->core->parked.size() == 0; }));
}

// Chains that end while they are being parked: what they use must still be there.
TEST_P(ApiTest, ManyWatchersOfStudiesThatEnd) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 15; ++i) {
        std::string name;
        EXPECT_TRUE(create(study_request(), &name).ok());
        std::vector<std::thread> watchers;
        for (int w = 0; w < 3; ++w) {
          watchers.emplace_back([&] {
            grpc::ClientContext context;
            v1::WatchStudyRequest request;
            request.set_name(name);
            auto reader = daemon_->tuning->WatchStudy(&context, request);
            v1::StudyEvent event;
            int count = 0;
            while (reader->Read(&event)) ++count;
            EXPECT_EQ(count, 2);
            EXPECT_TRUE(reader->Finish().ok());
          });
        }
        v1::Study study;
        EXPECT_TRUE(cancel(name, "", &study).ok());
        for (std::thread& watcher : watchers) watcher.join();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(ApiTest, WaitingForAnOperationEndsWithItOrItsTime) {
  std::string name;
  ASSERT_TRUE(create(study_request(), &name).ok());
  google::longrunning::WaitOperationRequest request;
  google::longrunning::Operation operation;
  request.set_name("operations" + name.substr(name.find('/')));
  request.mutable_timeout()->set_nanos(50'000'000);
  const auto wait = [&] {
    operation.Clear();
    return ask(daemon_->operations, &google::longrunning::Operations::Stub::WaitOperation, request,
               &operation);
  };
  ASSERT_TRUE(wait().ok());
  EXPECT_FALSE(operation.done());
  request.mutable_timeout()->set_seconds(INT64_MAX);
  std::thread canceller([&] {
    v1::Study study;
    EXPECT_TRUE(cancel(name, "", &study).ok());
  });
  ASSERT_TRUE(wait().ok());
  canceller.join();
  EXPECT_TRUE(operation.done());
  EXPECT_EQ(operation.error().code(), static_cast<int>(absl::StatusCode::kCancelled));
}

// ---- agents that wait ---------------------------------------------------------------------------

TEST_P(ApiTest, AResumedDeviceGetsWorkWhileItsAgentWaits) {
  const v1::SynchronizeRequest first = agent_call();
  v1::SynchronizeResponse response;
  ASSERT_TRUE(
      ask(daemon_->agents, &v1::AgentService::Stub::Synchronize, first, &response).ok());
  v1::DrainDevicesRequest drain;
  drain.set_request_id(fresh_id());
  drain.add_names("devices/d");
  v1::DrainDevicesResponse drained;
  ASSERT_TRUE(
      ask(daemon_->fleet, &v1::FleetService::Stub::DrainDevices, drain, &drained).ok());
  std::string study;
  ASSERT_TRUE(create(study_request(), &study).ok());
  JobRow job;
  job.target = first.devices(0).description().target_id();
  job.backend = first.devices(0).description().backend();
  add_job(study, job);
  v1::SynchronizeRequest waiting = agent_call();
  waiting.mutable_devices(0)->clear_description();
  waiting.mutable_devices(0)->set_wanted(1);
  waiting.mutable_wait()->set_seconds(100);
  std::thread agent([&] {
    EXPECT_TRUE(Daemon::call(*daemon_->agents, &v1::AgentService::Stub::Synchronize, waiting,
                             &response, 120).ok());
  });
  EXPECT_TRUE(eventually([&] { return daemon_->service->core->parked.size() == 1; }));
  v1::ResumeDevicesRequest resume;
  resume.set_request_id(fresh_id());
  resume.add_names("devices/d");
  v1::ResumeDevicesResponse resumed;
  EXPECT_TRUE(
      ask(daemon_->fleet, &v1::FleetService::Stub::ResumeDevices, resume, &resumed).ok());
  agent.join();
  EXPECT_EQ(response.jobs_size(), 1) << "waited to the end of the call";
}

// ---- around the calls ---------------------------------------------------------------------------

TEST_P(ApiTest, HealthSaysWhatServes) {
  // The request is a string in field 1, the answer an enum in field 1: 1 serving, 2 not.
  const auto state = [&](const std::string& service) {
    std::string answer, bytes = "\x0a";
    bytes += static_cast<char>(service.size());
    const grpc::Status status =
        raw_call(daemon_->channel, "/grpc.health.v1.Health/Check", bytes + service, &answer);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return answer.size() == 2 ? answer[1] : -1;
  };
  EXPECT_EQ(state(""), 1);
  EXPECT_EQ(state("loopwright.v1.TuningService"), 1);
  daemon_->server->set_serving(true, false);
  EXPECT_EQ(state("loopwright.v1.TuningService"), 2);
  EXPECT_EQ(state("loopwright.v1.ScheduleService"), 1);
}

TEST_P(ApiTest, WhatChangesSomethingIsAudited) {
  std::string name;
  ASSERT_TRUE(create(study_request(), &name).ok());
  v1::Study study;
  ASSERT_TRUE(cancel(name, "", &study).ok());
  EXPECT_FALSE(cancel("studies/NONE", "", &study).ok());
  v1::ListAuditResponse audit;
  EXPECT_TRUE(eventually([&] {
    audit.Clear();
    return ask(daemon_->fleet, &v1::FleetService::Stub::ListAudit, v1::ListAuditRequest(), &audit)
               .ok() && audit.entries_size() >= 3;
  }));
  EXPECT_EQ(audit.entries(0).subject(), "studies/NONE");
  EXPECT_EQ(audit.entries(0).outcome(), "NOT_FOUND STUDY_NOT_FOUND");
  EXPECT_EQ(audit.entries(1).outcome(), "OK");
  EXPECT_EQ(audit.entries(1).subject(), name);
  EXPECT_THAT(audit.entries(2).method(), HasSubstr("CreateStudy"));
}

TEST_P(ApiTest, StoppingEndsWhoWaits) {
  std::string name;
  ASSERT_TRUE(create(study_request(), &name).ok());
  absl::Status watched;
  std::atomic<bool> reading = false;
  std::thread watcher([&] {
    grpc::ClientContext context;
    v1::WatchStudyRequest request;
    request.set_name(name);
    auto reader = daemon_->tuning->WatchStudy(&context, request);
    v1::StudyEvent event;
    while (reader->Read(&event)) reading = true;
    watched = from_grpc(reader->Finish());
  });
  EXPECT_TRUE(eventually([&] { return reading && daemon_->service->core->parked.size() == 1; }));
  daemon_->server->stop(5);
  watcher.join();
  EXPECT_EQ(reason_of(watched), v1::ERROR_REASON_STOPPING) << watched;
}

}  // namespace
}  // namespace lw
