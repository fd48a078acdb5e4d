// A whole daemon in this process, and what a client of it holds.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <httplib.h>

#include "google/longrunning/operations.grpc.pb.h"
#include "loopwright/v1/agent.grpc.pb.h"
#include "loopwright/v1/fleet.grpc.pb.h"
#include "loopwright/v1/schedule.grpc.pb.h"
#include "loopwright/v1/study.grpc.pb.h"
#include "src/serve/daemon.h"
#include "tests/support/fault_fixture.h"
#include "tests/support/program.h"

namespace lw {

class RunningDaemon {
 public:
  explicit RunningDaemon(const std::string& database, ServiceOptions service = quick_service()) {
    DaemonOptions options;
    options.listen = "127.0.0.1:0";
    options.http = "127.0.0.1:0";
    options.database = database;
    options.grace_s = 2;
    options.service = std::move(service);
    auto started = std::make_shared<std::promise<void>>();
    std::future<void> ready = started->get_future();
    thread_ = std::thread([this, options, started] {
      status_ = run_daemon(options,
                           [&](const std::string& grpc, const std::string& http) {
                             address = grpc;
                             url = http;
                             started->set_value();
                           },
                           [this] { return stop_.load(); });
      if (address.empty()) started->set_value();
    });
    ready.wait();
    CHECK(!address.empty());
  }
  ~RunningDaemon() { stop().IgnoreError(); }
  absl::Status stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return status_;
  }
  std::string get(const std::string& path, int* code = nullptr) const {
    httplib::Client client(url.substr(0, url.size() - 1));
    const auto response = client.Get(path);
    if (code != nullptr) *code = response ? response->status : 0;
    return response ? response->body : "";
  }

  std::string address, url;

 private:
  std::atomic<bool> stop_ = false;
  absl::Status status_;
  std::thread thread_;
};

// Stubs over one channel of their own.
class DaemonClient {
 public:
  explicit DaemonClient(const std::string& address) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 20);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
    channel_ = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
    tuning = v1::TuningService::NewStub(channel_);
    agents = v1::AgentService::NewStub(channel_);
    schedules = v1::ScheduleService::NewStub(channel_);
    fleet = v1::FleetService::NewStub(channel_);
  }

  // As one call: `method` of a stub, with a deadline.
  template <class Response, class Stub, class Method, class Request>
  absl::StatusOr<Response> call(const std::unique_ptr<Stub>& stub, Method method,
                                const Request& request, double deadline_s = 20) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::milliseconds(static_cast<int64_t>(1000 * deadline_s)));
    Response response;
    const absl::Status status = from_grpc((stub.get()->*method)(&context, request, &response));
    if (!status.ok()) return status;
    return response;
  }

  absl::StatusOr<google::longrunning::Operation> create(const std::string& id,
                                                        const v1::StudySpec& spec) {
    v1::CreateStudyRequest request;
    request.set_request_id(id);
    *request.mutable_spec() = spec;
    return call<google::longrunning::Operation>(tuning, &v1::TuningService::Stub::CreateStudy,
                                                request);
  }
  absl::StatusOr<v1::Study> study(const std::string& name) {
    v1::GetStudyRequest request;
    request.set_name(name);
    return call<v1::Study>(tuning, &v1::TuningService::Stub::GetStudy, request);
  }
  absl::StatusOr<v1::SynchronizeResponse> synchronize(const v1::SynchronizeRequest& request,
                                                      double deadline_s = 20) {
    return call<v1::SynchronizeResponse>(agents, &v1::AgentService::Stub::Synchronize, request,
                                         deadline_s);
  }
  absl::StatusOr<v1::PutRecordsResponse> put(const std::string& id, int extent) {
    v1::PutRecordsRequest request;
    request.set_request_id(id);
    const WorkloadRow workload = make_workload(extent);
    v1::Record& record = *request.add_records();
    *record.mutable_key() = to_proto(make_key(workload, make_target()));
    *record.mutable_measurement() = to_proto(make_measurement(1, {10, 11}));
    *record.mutable_workload() = to_proto(workload);
    *record.mutable_target() = to_proto(make_target());
    return call<v1::PutRecordsResponse>(schedules, &v1::ScheduleService::Stub::PutRecords, request);
  }

  // What grpc.health.v1.Health says of a service: 1 serving, 2 not; -1: no answer.
  int health(const std::string& service) {
    grpc::GenericStub stub(channel_);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    grpc::CompletionQueue queue;
    const std::string text = "\x0a" + std::string(1, static_cast<char>(service.size())) + service;
    grpc::Slice slice(text);
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    grpc::Status status;
    auto reader = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
    reader->StartCall();
    reader->Finish(&response, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    std::vector<grpc::Slice> parts;
    if (!status.ok() || !response.Dump(&parts).ok()) return -1;
    std::string bytes;
    for (const grpc::Slice& part : parts)
      bytes.append(reinterpret_cast<const char*>(part.begin()), part.size());
    return bytes.size() == 2 && bytes[0] == 8 ? bytes[1] : 0;
  }

  std::unique_ptr<v1::TuningService::Stub> tuning;
  std::unique_ptr<v1::AgentService::Stub> agents;
  std::unique_ptr<v1::ScheduleService::Stub> schedules;
  std::unique_ptr<v1::FleetService::Stub> fleet;

 private:
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace lw
