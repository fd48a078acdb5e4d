// A daemon in this process, on a port that the system chooses, with stubs for it and null agents.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "google/longrunning/operations.grpc.pb.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"
#include "loopwright/v1/agent.grpc.pb.h"
#include "loopwright/v1/fleet.grpc.pb.h"
#include "loopwright/v1/schedule.grpc.pb.h"
#include "loopwright/v1/study.grpc.pb.h"
#include "src/agent/agent.h"
#include "src/serve/messages/errors.h"
#include "src/serve/rows/clock.h"
#include "src/serve/wire/server.h"
#include "tests/support/postgres_fixture.h"
#include "tests/support/program.h"
#include "tests/support/store_fixture.h"

namespace lw {

namespace v1 = loopwright::v1;

inline constexpr char kMatmul[] =
    "op m(M = 32, N = 32, K = 32) {\n  in A: f32[M, K]\n  in B: f32[K, N]\n"
    "  out C[i: M, j: N] = sum[k: K](A[i, k] * B[k, j])\n}\n";

inline std::string matmul_text(int m) {
  std::string text = kMatmul;
  return text.replace(text.find("M = 32"), 6, absl::StrCat("M = ", m));
}

inline std::string fresh_id() { return make_id(1); }

// "sqlite" in `file`, or a fresh PostgreSQL schema's URL; "" where that is not installed.
inline std::string database_url(const std::string& kind, const std::string& file) {
  if (kind == "sqlite") return file;
  PostgresCluster* cluster = PostgresCluster::get();
  return cluster == nullptr ? "" : cluster->fresh();
}

class Daemon {
 public:
  explicit Daemon(const std::string& url, ServiceOptions options = {},
                  std::shared_ptr<grpc::ServerCredentials> credentials = nullptr)
      : database(*open_database(url)) {
    options.searcher.drafts = static_cast<int>(setting("LW_DRAFTS", options.searcher.drafts));
    service = *Service::start(database, options);
    ServerOptions server_options;
    server_options.address = *parse_bind_address("127.0.0.1:0");
    server_options.credentials = std::move(credentials);
    server_options.reflection = true;
    server = *Server::start(*service, server_options);
    connect(grpc::InsecureChannelCredentials());
  }
  ~Daemon() {
    if (server != nullptr) server->stop(0.5);
  }

  void connect(const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetMaxReceiveMessageSize(64 << 20);
    channel = grpc::CreateCustomChannel(server->address(), credentials, arguments);
    tuning = v1::TuningService::NewStub(channel);
    agents = v1::AgentService::NewStub(channel);
    schedules = v1::ScheduleService::NewStub(channel);
    fleet = v1::FleetService::NewStub(channel);
    operations = google::longrunning::Operations::NewStub(channel);
  }

  // Any unary method, with a deadline.
  template <class Stub, class Request, class Response>
  static absl::Status call(Stub& stub,
                           grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                        Response*),
                           const Request& request, Response* response, double seconds = 20) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::milliseconds(static_cast<int64_t>(1000 * seconds)));
    return from_grpc((stub.*method)(&context, request, response));
  }

  std::shared_ptr<Database> database;
  std::unique_ptr<Service> service;
  std::unique_ptr<Server> server;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::TuningService::Stub> tuning;
  std::unique_ptr<v1::AgentService::Stub> agents;
  std::unique_ptr<v1::ScheduleService::Stub> schedules;
  std::unique_ptr<v1::FleetService::Stub> fleet;
  std::unique_ptr<google::longrunning::Operations::Stub> operations;
};

// A unary call of bytes, whatever they are; the answer's bytes in `answer`.
inline grpc::Status raw_call(const std::shared_ptr<grpc::Channel>& channel,
                             const std::string& method, const std::string& bytes,
                             std::string* answer, double seconds = 5) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(static_cast<int64_t>(1000 * seconds)));
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::CompletionQueue queue;
  auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
  call->StartCall();
  grpc::ByteBuffer response;
  grpc::Status status;
  call->Finish(&response, &status, &queue);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  grpc::Slice all;
  if (status.ok() && response.TrySingleSlice(&all).ok()) {
    answer->assign(reinterpret_cast<const char*>(all.begin()), all.size());
  }
  return status;
}

// The field that a BadRequest names; "" without one.
inline std::string bad_field_of(const absl::Status& status) {
  const auto payload = status.GetPayload("type.googleapis.com/google.rpc.BadRequest");
  google::rpc::BadRequest bad;
  if (!payload.has_value() || !bad.ParseFromString(std::string(*payload))) return "";
  return bad.field_violations_size() == 0 ? "" : bad.field_violations(0).field();
}

inline v1::CreateStudyRequest study_request(std::vector<int> sizes = {32}, int trials = 24) {
  v1::CreateStudyRequest request;
  request.set_request_id(fresh_id());
  for (int m : sizes) request.mutable_spec()->add_workloads()->set_program(matmul_text(m));
  request.mutable_spec()->set_trials(trials);
  request.mutable_spec()->set_threads(1);
  request.mutable_spec()->set_batch(4);
  return request;
}

// An agent with null devices on a thread of its own, until it is destroyed.
class NullAgent {
 public:
  NullAgent(const std::string& address, const std::string& name,
            const std::string& device = "target=x86_avx2", int slots = 2) {
    options_.server.address = address;
    options_.name = name;
    options_.devices = {absl::StrCat("null:", name, "-0,", device)};
    options_.version = "test";
    options_.slots = slots;
    options_.wait_s = 2;
    options_.leave_s = 0.5;
    options_.backoff_s = 0.02;
    options_.most_backoff_s = 0.1;
    options_.interrupts = [this] { return signals_.load(); };
    thread_ = std::thread([this] {
      status = run_agent(options_);
      EXPECT_FALSE(absl::IsInvalidArgument(status)) << status;  // a test waits for it in vain
    });
  }
  ~NullAgent() {
    signals_ = 2;
    thread_.join();
  }
  absl::Status status;

 private:
  std::atomic<int> signals_ = 0;
  AgentOptions options_;
  std::thread thread_;
};

}  // namespace lw
