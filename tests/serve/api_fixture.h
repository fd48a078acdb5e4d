// A daemon that searches for nothing, and calls of it: what the tests of the API share.
#pragma once

#include "schedules/targets/target.h"
#include "src/net/words.h"
#include "src/serve/messages/names.h"
#include "src/serve/rows/rows.h"
#include "tests/support/daemon_fixture.h"
#include "tuner_db/messages/messages.h"

namespace lw {

class ApiTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (url_.empty()) GTEST_SKIP() << "PostgreSQL is not installed";
    start();
  }
  void start(const ServiceOptions& options = idle()) {
    daemon_.reset();
    daemon_ = std::make_unique<Daemon>(url_, options);
  }
  static ServiceOptions idle() {
    ServiceOptions options;
    options.search = false;
    options.config.quotas.active_studies_per_client = 1'000'000;
    return options;
  }

  template <class Stub, class Request, class Response>
  absl::Status ask(const std::unique_ptr<Stub>& stub,
                   grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                   const Request& request, Response* response) {
    return Daemon::call(*stub, method, request, response);
  }
  absl::Status create(const v1::CreateStudyRequest& request, std::string* name = nullptr) {
    google::longrunning::Operation operation;
    const absl::Status status =
        ask(daemon_->tuning, &v1::TuningService::Stub::CreateStudy, request, &operation);
    if (name != nullptr) *name = "studies" + operation.name().substr(operation.name().find('/'));
    return status;
  }
  absl::Status get(const std::string& name, v1::Study* study) {
    v1::GetStudyRequest request;
    request.set_name(name);
    return ask(daemon_->tuning, &v1::TuningService::Stub::GetStudy, request, study);
  }
  absl::Status cancel(const std::string& name, const std::string& etag, v1::Study* study) {
    v1::CancelStudyRequest request;
    request.set_request_id(fresh_id());
    request.set_name(name);
    request.set_etag(etag);
    return ask(daemon_->tuning, &v1::TuningService::Stub::CancelStudy, request, study);
  }
  // An agent's call that describes a device; it does not wait.
  v1::SynchronizeRequest agent_call(const std::string& device = "d") {
    v1::SynchronizeRequest request;
    request.set_agent("agents/a");
    request.set_session("s1");
    request.set_sequence(++sequence_);
    v1::DeviceState& state = *request.add_devices();
    state.set_name("devices/" + device);
    const Target target = *find_target("x86_avx2");
    *state.mutable_description()->mutable_target() = to_proto(target);
    state.mutable_description()->set_target_id(sha256(to_text(target)));
    state.mutable_description()->set_backend("llvm");
    state.mutable_description()->mutable_words()->Assign(known_words().begin(),
                                                         known_words().end());
    return request;
  }
  void add_device() {
    v1::SynchronizeResponse response;
    ASSERT_TRUE(ask(daemon_->agents, &v1::AgentService::Stub::Synchronize, agent_call(), &response)
                    .ok());
  }
  // A job of the study ("studies/ID"), with what `job` says of it.
  void add_job(const std::string& study, JobRow job) {
    job.study = id_of(study);
    job.client = "local";
    job.candidates = 1;
    job.sources = {"evolve"};
    job.payload.add_candidates();
    ASSERT_TRUE(daemon_->database->write(5, [&](WriteTransaction& tx) {
      return insert_job(tx, job).status();
    }).ok());
  }
  static v1::PutRecordsRequest records_request() {
    v1::PutRecordsRequest request;
    request.set_request_id(fresh_id());
    v1::Record& record = *request.add_records();
    const WorkloadRow workload = make_workload(64);
    const Target target = make_target();
    *record.mutable_key() = to_proto(make_key(workload, target));
    *record.mutable_measurement() = to_proto(make_measurement(1, {10, 11}));
    *record.mutable_workload() = to_proto(workload);
    *record.mutable_target() = to_proto(target);
    return request;
  }

  Scratch scratch_;
  const std::string url_ = database_url(GetParam(), scratch_.file);
  std::unique_ptr<Daemon> daemon_;
  int64_t sequence_ = 0;
};

inline void expect_bad(const absl::Status& status, const std::string& field) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(bad_field_of(status), field) << status;
  EXPECT_NE(reason_of(status), v1::ERROR_REASON_UNSPECIFIED) << status;
}

}  // namespace lw
