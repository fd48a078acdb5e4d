// Every method on the wire, asked rightly and wrongly: a wrong request gets the code, the reason
// and the field that the API promises.
#include <atomic>
#include <set>

#include "tests/serve/api_fixture.h"

namespace lw {
namespace {

// ---- each field of a study ----------------------------------------------------------------------

TEST_P(ApiTest, EachWrongFieldOfAStudyIsNamed) {
  const auto check = [&](const std::string& field,
                         const std::function<void(v1::CreateStudyRequest&)>& spoil) {
    v1::CreateStudyRequest request = study_request();
    spoil(request);
    SCOPED_TRACE(field);
    expect_bad(create(request), field);
  };
  using R = v1::CreateStudyRequest;
  check("request_id", [](R& r) { r.clear_request_id(); });
  check("request_id", [](R& r) { r.set_request_id(std::string(101, 'x')); });
  check("spec.workloads", [](R& r) { r.mutable_spec()->clear_workloads(); });
  check("spec.workloads[0].program",
        [](R& r) { r.mutable_spec()->mutable_workloads(0)->set_program("op"); });
  check("spec.workloads[1].program", [](R& r) { r.mutable_spec()->add_workloads(); });
  check("spec.workloads[0].name",
        [](R& r) { r.mutable_spec()->mutable_workloads(0)->set_name(std::string(201, 'n')); });
  for (double weight : {-1.0, 1e13, std::nan(""), HUGE_VAL}) {
    check("spec.workloads[0].weight",
          [&](R& r) { r.mutable_spec()->mutable_workloads(0)->set_weight(weight); });
  }
  check("spec.threads", [](R& r) { r.mutable_spec()->set_threads(-1); });
  check("spec.cache", [](R& r) { r.mutable_spec()->set_cache("hot"); });
  check("spec.trials", [](R& r) { r.mutable_spec()->set_trials(-1); });
  check("spec.priority", [](R& r) { r.mutable_spec()->set_priority(101); });
  check("spec.batch", [](R& r) { r.mutable_spec()->set_batch(257); });
  check("spec.time_budget",
        [](R& r) { r.mutable_spec()->mutable_time_budget()->set_seconds(-1); });
  check("spec.time_budget",
        [](R& r) { r.mutable_spec()->mutable_time_budget()->set_nanos(-1); });
  check("spec.most_waiting", [](R& r) { r.mutable_spec()->mutable_most_waiting(); });
  check("spec.labels", [](R& r) { (*r.mutable_spec()->mutable_labels())[""] = "x"; });
  for (const char* never : {"no such", "devices/", "devices/a b", "host", "x86_avx1024"}) {
    check("spec.target", [&](R& r) { r.mutable_spec()->set_target(never); });
  }
  check("spec.target", [](R& r) { r.mutable_spec()->set_target(std::string(201, 't')); });
}

TEST_P(ApiTest, WhatIsNotThereIsNotFoundWithItsReason) {
  v1::Study study;
  absl::Status status = get("studies/NONE", &study);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(reason_of(status), v1::ERROR_REASON_STUDY_NOT_FOUND);
  status = cancel("studies/NONE", "", &study);
  EXPECT_EQ(reason_of(status), v1::ERROR_REASON_STUDY_NOT_FOUND);
  google::longrunning::GetOperationRequest operation_request;
  google::longrunning::Operation operation;
  operation_request.set_name("operations/NONE");
  status = ask(daemon_->operations, &google::longrunning::Operations::Stub::GetOperation,
               operation_request, &operation);
  EXPECT_EQ(reason_of(status), v1::ERROR_REASON_OPERATION_NOT_FOUND);
  v1::DrainDevicesRequest drain;
  v1::DrainDevicesResponse drained;
  drain.set_request_id(fresh_id());
  drain.add_names("devices/none");
  status = ask(daemon_->fleet, &v1::FleetService::Stub::DrainDevices, drain, &drained);
  EXPECT_EQ(reason_of(status), v1::ERROR_REASON_DEVICE_NOT_FOUND);
  v1::RequeueJobRequest requeue;
  v1::JobStatus job;
  requeue.set_request_id(fresh_id());
  requeue.set_name("jobs/77");
  status = ask(daemon_->fleet, &v1::FleetService::Stub::RequeueJob, requeue, &job);
  EXPECT_EQ(reason_of(status), v1::ERROR_REASON_JOB_NOT_FOUND);
  for (const char* name :
       {"", "studies/", "study/x", "studies/../x", "studies/a b", "studies/.x"}) {
    expect_bad(get(name, &study), "name");
  }
}

TEST_P(ApiTest, AnOldEtagIsAborted) {
  std::string name;
  ASSERT_TRUE(create(study_request(), &name).ok());
  v1::Study study;
  const absl::Status status = cancel(name, "0123", &study);
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(reason_of(status), v1::ERROR_REASON_ETAG_MISMATCH);
  ASSERT_TRUE(get(name, &study).ok());
  EXPECT_TRUE(cancel(name, study.etag(), &study).ok());
  EXPECT_EQ(study.progress().state(), v1::STUDY_STATE_CANCELLED);
  EXPECT_TRUE(cancel(name, "", &study).ok()) << "cancelling what has ended changes nothing";
}

TEST_P(ApiTest, AQuotaSaysWhenToTryAgain) {
  ServiceOptions options = idle();
  options.config.quotas.active_studies_per_client = 2;
  start(options);
  EXPECT_TRUE(create(study_request()).ok());
  EXPECT_TRUE(create(study_request()).ok());
  const absl::Status status = create(study_request());
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(reason_of(status), v1::ERROR_REASON_QUOTA_EXCEEDED);
  EXPECT_GT(retry_delay_ms(status), 0);
}

TEST_P(ApiTest, ACallWithoutADeadlineIsRefused) {
  grpc::ClientContext context;
  v1::Fleet fleet;
  const absl::Status status = from_grpc(daemon_->fleet->GetFleet(&context, {}, &fleet));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(reason_of(status), v1::ERROR_REASON_MISSING_DEADLINE);
}

TEST_P(ApiTest, AMessageThatIsTooLongIsRefused) {
  v1::CreateStudyRequest request = study_request();
  request.mutable_spec()->mutable_workloads(0)->set_program(std::string(5 << 20, ' '));
  const absl::Status status = create(request);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(reason_of(status), v1::ERROR_REASON_TOO_LARGE) << status;
  v1::SynchronizeRequest agents = agent_call();
  agents.mutable_devices(0)->mutable_description()->set_facts(std::string(5 << 20, ' '));
  v1::SynchronizeResponse answer;
  EXPECT_EQ(reason_of(ask(daemon_->agents, &v1::AgentService::Stub::Synchronize, agents, &answer)),
            v1::ERROR_REASON_TOO_LARGE);
  // What is absurd gRPC refuses, without a reason.
  request.mutable_spec()->mutable_workloads(0)->set_program(std::string(9 << 20, ' '));
  EXPECT_EQ(create(request).code(), absl::StatusCode::kResourceExhausted);
}

TEST_P(ApiTest, AParsersErrorNamesItsFieldOnce) {
  v1::CreateStudyRequest request = study_request();
  request.mutable_spec()->mutable_workloads(0)->set_program("op");
  const std::string said(create(request).message());
  const std::string field = "spec.workloads[0].program";
  EXPECT_EQ(said.find(field), 0u) << said;
  EXPECT_EQ(said.rfind(field), 0u) << said;
}

TEST_P(ApiTest, ALongErrorArrivesWhole) {
  v1::CreateStudyRequest request = study_request();
  request.mutable_spec()->mutable_workloads(0)->set_program("op " + std::string(200'000, 'x'));
  expect_bad(create(request), "spec.workloads[0].program");
  v1::ListStudiesRequest list;
  v1::ListStudiesResponse listed;
  std::string filter;
  for (int i = 0; i < 999; ++i) filter += "\xc3\xa9";
  list.set_filter(filter);
  expect_bad(ask(daemon_->tuning, &v1::TuningService::Stub::ListStudies, list, &listed), "filter");
}

// Not a field that somebody filled with a file, nor twice in message and details.
TEST_P(ApiTest, AnErrorDoesNotEchoALongField) {
  const std::string text(100'000, 'x');
  const auto expect_short = [](const absl::Status& status) {
    EXPECT_FALSE(status.ok());
    EXPECT_LT(to_grpc(status).error_message().size(), 1000u);
    EXPECT_LT(to_grpc(status).error_details().size(), 4000u);
  };
  using R = v1::CreateStudyRequest;
  for (const std::function<void(R&)>& spoil : std::vector<std::function<void(R&)>>{
           [&](R& r) { r.mutable_spec()->set_target(text); },
           [&](R& r) { r.mutable_spec()->set_cache(text); },
           [&](R& r) { r.mutable_spec()->mutable_workloads(0)->set_program(text); },
           [&](R& r) { r.mutable_spec()->mutable_workloads(0)->set_program("op " + text); },
           [&](R& r) { (*r.mutable_spec()->mutable_labels())[text] = text; },
           [&](R& r) { r.set_request_id(text); }}) {
    v1::CreateStudyRequest request = study_request();
    spoil(request);
    expect_short(create(request));
  }
  v1::Study study;
  for (const std::string& name : {text, "studies/" + text, "studies/a" + text}) {
    expect_short(get(name, &study));
    expect_short(cancel(name, "", &study));
  }
  v1::ListStudiesRequest list;
  v1::ListStudiesResponse listed;
  list.set_filter("state = " + text);
  expect_short(ask(daemon_->tuning, &v1::TuningService::Stub::ListStudies, list, &listed));
  list.set_filter("");
  list.set_page_token(text);
  expect_short(ask(daemon_->tuning, &v1::TuningService::Stub::ListStudies, list, &listed));
  v1::BatchLookupRequest lookup;
  v1::BatchLookupResponse found;
  lookup.add_queries()->set_program("op " + text);
  lookup.mutable_queries(0)->set_target_name(text);
  expect_short(ask(daemon_->schedules, &v1::ScheduleService::Stub::BatchLookup, lookup, &found));
  v1::DrainDevicesRequest drain;
  v1::DrainDevicesResponse drained;
  drain.set_request_id(fresh_id());
  drain.add_names("devices/" + text);
  expect_short(ask(daemon_->fleet, &v1::FleetService::Stub::DrainDevices, drain, &drained));
  v1::SynchronizeRequest agents = agent_call(text);
  v1::SynchronizeResponse answer;
  agents.mutable_devices(0)->mutable_description()->mutable_target()->set_name(text);
  expect_short(ask(daemon_->agents, &v1::AgentService::Stub::Synchronize, agents, &answer));
}

// ---- idempotency --------------------------------------------------------------------------------

// Every call that changes something: the same id gets the same answer, also from the next daemon;
// with another content it is refused.
TEST_P(ApiTest, ARequestIdGivesTheSameAnswerAlsoAfterARestart) {
  add_device();
  std::string study;
  ASSERT_TRUE(create(study_request(), &study).ok());
  JobRow dead;
  dead.state = v1::JOB_STATE_DEAD;
  dead.attempt = 1, dead.epoch = 1;
  add_job(study, dead);
  const auto twice = [&](auto stub, auto method, auto request, auto response, auto change) {
    SCOPED_TRACE(request.GetTypeName());
    request.set_request_id(fresh_id());
    const auto send = [&](auto* answer) {
      return Daemon::call(*((*daemon_).*stub), method, request, answer);
    };
    ASSERT_TRUE(send(&response).ok()) << send(&response);
    auto again = response;
    EXPECT_TRUE(send(&again).ok());
    EXPECT_EQ(again.SerializeAsString(), response.SerializeAsString());
    start();
    EXPECT_TRUE(send(&again).ok());
    EXPECT_EQ(again.SerializeAsString(), response.SerializeAsString());
    change(request);
    const absl::Status reused = send(&again);
    EXPECT_EQ(reused.code(), absl::StatusCode::kAborted) << reused;
    EXPECT_EQ(reason_of(reused), v1::ERROR_REASON_REQUEST_ID_REUSED);
    request.clear_request_id();
    const absl::Status missing = send(&again);
    EXPECT_EQ(reason_of(missing), v1::ERROR_REASON_MISSING_REQUEST_ID);
    EXPECT_EQ(bad_field_of(missing), "request_id");
  };
  twice(&Daemon::tuning, &v1::TuningService::Stub::CreateStudy, study_request(),
        google::longrunning::Operation(), [](auto& r) { r.mutable_spec()->set_seed(99); });
  v1::DrainDevicesRequest drain;
  drain.add_names("devices/d");
  twice(&Daemon::fleet, &v1::FleetService::Stub::DrainDevices, drain, v1::DrainDevicesResponse(),
        [](auto& r) { r.set_reason("another"); });
  v1::ResumeDevicesRequest resume;
  resume.add_names("devices/d");
  twice(&Daemon::fleet, &v1::FleetService::Stub::ResumeDevices, resume,
        v1::ResumeDevicesResponse(), [](auto& r) { r.add_names("devices/e"); });
  v1::QuarantineDeviceRequest quarantine;
  quarantine.set_name("devices/d");
  quarantine.set_reason("smoke");
  twice(&Daemon::fleet, &v1::FleetService::Stub::QuarantineDevice, quarantine, v1::DeviceStatus(),
        [](auto& r) { r.set_reason("fire"); });
  v1::RequeueJobRequest requeue;
  requeue.set_name("jobs/1");
  twice(&Daemon::fleet, &v1::FleetService::Stub::RequeueJob, requeue, v1::JobStatus(),
        [](auto& r) { r.set_name("jobs/2"); });
  twice(&Daemon::schedules, &v1::ScheduleService::Stub::PutRecords, records_request(),
        v1::PutRecordsResponse(), [](auto& r) { r.clear_records(); });
  if (std::string(GetParam()) == "sqlite") {
    v1::BackupDatabaseRequest backup;
    backup.set_request_id(fresh_id());
    const auto copies = [&] {
      int count = 0;
      for (const auto& entry : std::filesystem::directory_iterator(scratch_.directory)) {
        count += entry.path().filename().string().starts_with("loopwright-");
      }
      return count;
    };
    v1::BackupDatabaseResponse first, second;
    ASSERT_TRUE(ask(daemon_->fleet, &v1::FleetService::Stub::BackupDatabase, backup, &first).ok());
    ASSERT_TRUE(ask(daemon_->fleet, &v1::FleetService::Stub::BackupDatabase, backup, &second).ok());
    EXPECT_EQ(first.file(), second.file());
    backup.clear_request_id();
    expect_bad(ask(daemon_->fleet, &v1::FleetService::Stub::BackupDatabase, backup, &second),
               "request_id");
    EXPECT_EQ(copies(), 1) << "a refused call leaves no copy behind";
  }
  v1::CancelStudyRequest cancel;
  cancel.set_name(study);
  twice(&Daemon::tuning, &v1::TuningService::Stub::CancelStudy, cancel, v1::Study(),
        [](auto& r) { r.set_etag("x"); });
}

// ---- lists --------------------------------------------------------------------------------------

TEST_P(ApiTest, PagesAreTheWholeListUnderInserts) {
  std::set<std::string> before;
  for (int i = 0; i < 23; ++i) {
    std::string name;
    ASSERT_TRUE(create(study_request(), &name).ok());
    before.insert(name);
  }
  std::atomic<bool> stop = false;
  std::thread inserter([&] {
    while (!stop) EXPECT_TRUE(create(study_request()).ok());
  });
  std::vector<std::string> listed;
  v1::ListStudiesRequest request;
  v1::ListStudiesResponse response;
  request.set_page_size(4);
  do {
    response.Clear();
    ASSERT_TRUE(ask(daemon_->tuning, &v1::TuningService::Stub::ListStudies, request, &response)
                    .ok());
    EXPECT_LE(response.studies_size(), 4);
    for (const v1::Study& study : response.studies()) listed.push_back(study.name());
    request.set_page_token(response.next_page_token());
  } while (!response.next_page_token().empty());
  stop = true;
  inserter.join();
  const std::set<std::string> found(listed.begin(), listed.end());
  EXPECT_EQ(found.size(), listed.size()) << "none twice";
  for (const std::string& name : before) EXPECT_TRUE(found.contains(name));
  EXPECT_TRUE(std::is_sorted(listed.rbegin(), listed.rend()));
}

TEST_P(ApiTest, ATokenIsOfItsListAndFilter) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(create(study_request()).ok());
  v1::ListStudiesRequest request;
  v1::ListStudiesResponse response;
  request.set_page_size(1);
  const auto list = [&] {
    response.Clear();
    return ask(daemon_->tuning, &v1::TuningService::Stub::ListStudies, request, &response);
  };
  ASSERT_TRUE(list().ok());
  request.set_page_token(response.next_page_token());
  EXPECT_TRUE(list().ok());
  request.set_filter("state = QUEUED");
  expect_bad(list(), "page_token");
  request.set_filter("");
  request.set_page_token("not one");
  expect_bad(list(), "page_token");
  request.clear_page_token();
  request.set_page_size(-1);
  expect_bad(list(), "page_size");
}

TEST_P(ApiTest, FiltersChooseAndWrongOnesAreRefused) {
  std::string name;
  v1::CreateStudyRequest urgent = study_request();
  urgent.mutable_spec()->set_priority(50);
  ASSERT_TRUE(create(urgent, &name).ok());
  ASSERT_TRUE(create(study_request()).ok());
  v1::Study study;
  ASSERT_TRUE(cancel(name, "", &study).ok());
  const auto count = [&](const std::string& filter) {
    v1::ListStudiesRequest request;
    v1::ListStudiesResponse response;
    request.set_filter(filter);
    const absl::Status status =
        ask(daemon_->tuning, &v1::TuningService::Stub::ListStudies, request, &response);
    if (status.ok()) return response.studies_size();
    expect_bad(status, "filter");
    return -1;
  };
  EXPECT_EQ(count(""), 2);
  EXPECT_EQ(count("state = CANCELLED"), 1);
  EXPECT_EQ(count("state != cancelled AND client = \"local\""), 1);
  EXPECT_EQ(count("priority >= 10 AND trials < 100"), 1);
  EXPECT_EQ(count("create_time > \"2020-01-01T00:00:00Z\""), 2);
  EXPECT_EQ(count("create_time < \"2020-01-01T00:00:00Z\""), 0);
  EXPECT_EQ(count("client = \"x' OR '1'='1\""), 0);
  for (const char* wrong : {"state", "state =", "colour = red", "state = a b", "priority = ten",
                            "client = \"open", "state = QUEUED OR state = RUNNING", "= 3",
                            "create_time > yesterday", "state = BOGUS", "priority = 99999999999999999999"}) {
    EXPECT_EQ(count(wrong), -1) << wrong;
  }
}

TEST_P(ApiTest, SchedulesAreFoundByTheirWordsInEitherCase) {
  v1::PutRecordsResponse stored;
  ASSERT_TRUE(ask(daemon_->schedules, &v1::ScheduleService::Stub::PutRecords, records_request(),
                  &stored).ok());
  const auto count = [&](const std::string& search) {
    v1::ListSchedulesRequest request;
    v1::ListSchedulesResponse response;
    request.set_search(search);
    EXPECT_TRUE(ask(daemon_->schedules, &v1::ScheduleService::Stub::ListSchedules, request,
                    &response).ok());
    return response.schedules_size();
  };
  for (const char* found : {"", "matmul", "MATMUL", "Mul m=6", "M=64"}) {
    EXPECT_EQ(count(found), 1) << found;
  }
  for (const char* other : {"conv", "mat_ul", "%", "mat\\mul"}) EXPECT_EQ(count(other), 0) << other;
}

}  // namespace
}  // namespace lw
