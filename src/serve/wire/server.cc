// The services' methods are one line each: what differs between them is in the parts of Service,
// what is common in rpc.h.
#include "src/serve/wire/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "google/longrunning/operations.grpc.pb.h"
#include "loopwright/v1/agent.grpc.pb.h"
#include "loopwright/v1/fleet.grpc.pb.h"
#include "loopwright/v1/schedule.grpc.pb.h"
#include "loopwright/v1/study.grpc.pb.h"
#include "src/base/message.h"
#include "src/serve/wire/streams.h"

namespace lw {

namespace v1 = loopwright::v1;
namespace longrunning = google::longrunning;

namespace {

constexpr size_t kMostWaiting = 1000;      // calls for threads of a kind; others are refused
constexpr int kBulkNice = 5;               // a third of the processor where others want it too

// UNARY(service, Rpc, method): the override that forwards to the method of `subject_`.
#define UNARY_OF(service, rpc, method, Request, Response)                                      \
  grpc::ServerUnaryReactor* rpc(grpc::CallbackServerContext* context, const Request* request,  \
                                Response* response) override {                                 \
    return unary(wire_, context, "/" service "/" #rpc, request, response, CALL(method));       \
  }
#define CALL(method) [this](auto&... arguments) { return subject_.method(arguments...); }
#define UNARY(service, rpc, method) \
  UNARY_OF("loopwright.v1." service, rpc, method, v1::rpc##Request, v1::rpc##Response)

class TuningCalls : public v1::TuningService::CallbackService {
 public:
  explicit TuningCalls(const Wire& wire) : wire_(wire), subject_(wire.service->studies) {}
  UNARY("TuningService", GetCapabilities, get_capabilities)
  UNARY("TuningService", ListStudies, list_studies)
  UNARY_OF("loopwright.v1.TuningService", CreateStudy, create_study, v1::CreateStudyRequest,
           longrunning::Operation)
  UNARY_OF("loopwright.v1.TuningService", GetStudy, get_study, v1::GetStudyRequest, v1::Study)
  UNARY_OF("loopwright.v1.TuningService", CancelStudy, cancel_study, v1::CancelStudyRequest,
           v1::Study)
  grpc::ServerWriteReactor<v1::StudyEvent>* WatchStudy(
      grpc::CallbackServerContext* context, const v1::WatchStudyRequest* request) override {
    return watch_study(wire_, context, request);
  }

 private:
  const Wire& wire_;
  Studies& subject_;
};

class AgentCalls : public v1::AgentService::CallbackService {
 public:
  explicit AgentCalls(const Wire& wire) : wire_(wire) {}
  grpc::ServerUnaryReactor* Synchronize(grpc::CallbackServerContext* context,
                                        const v1::SynchronizeRequest* request,
                                        v1::SynchronizeResponse* response) override {
    return synchronize(wire_, context, request, response);
  }

 private:
  const Wire& wire_;
};

class ScheduleCalls : public v1::ScheduleService::CallbackService {
 public:
  explicit ScheduleCalls(const Wire& wire) : wire_(wire), subject_(wire.service->schedules) {}
  // What adapts or searches computes, and has threads of its own: look-ups that only look up never
  // wait for it.
  grpc::ServerUnaryReactor* BatchLookup(grpc::CallbackServerContext* context,
                                        const v1::BatchLookupRequest* request,
                                        v1::BatchLookupResponse* response) override {
    const bool computes = request->adapt() || request->worst() == v1::LOOKUP_OUTCOME_DEFAULT;
    return unary(wire_, context, "/loopwright.v1.ScheduleService/BatchLookup", request, response,
                 CALL(batch_lookup), computes ? wire_.adapting : wire_.lookups);
  }
  UNARY("ScheduleService", PutRecords, put_records)
  UNARY("ScheduleService", ListHistory, list_history)
  UNARY("ScheduleService", ListSchedules, list_schedules)
  UNARY("ScheduleService", RestoreRecord, restore_record)
  UNARY("ScheduleService", ListWithdrawn, list_withdrawn)
  UNARY("ScheduleService", PollWithdrawn, poll_withdrawn)
  UNARY("ScheduleService", AnnulMeasurements, annul_measurements)
  UNARY("ScheduleService", ReinstateMeasurements, reinstate_measurements)
  UNARY_OF("loopwright.v1.ScheduleService", WithdrawRecord, withdraw_record,
           v1::WithdrawRecordRequest, v1::WithdrawnRecord)
  grpc::ServerWriteReactor<v1::ExportRecordsResponse>* ExportRecords(
      grpc::CallbackServerContext* context, const v1::ExportRecordsRequest* request) override {
    return export_records(wire_, context, request);
  }
  grpc::ServerReadReactor<v1::ImportRecordsRequest>* ImportRecords(
      grpc::CallbackServerContext* context, v1::ImportRecordsResponse* response) override {
    return import_records(wire_, context, response);
  }

 private:
  const Wire& wire_;
  Schedules& subject_;
};

class FleetCalls : public v1::FleetService::CallbackService {
 public:
  explicit FleetCalls(const Wire& wire) : wire_(wire), subject_(wire.service->fleet) {}
  UNARY("FleetService", ListDevices, list_devices)
  UNARY("FleetService", ListAgents, list_agents)
  UNARY("FleetService", DrainDevices, drain_devices)
  UNARY("FleetService", ResumeDevices, resume_devices)
  UNARY("FleetService", ListJobs, list_jobs)
  UNARY("FleetService", ListAudit, list_audit)
  grpc::ServerUnaryReactor* BackupDatabase(grpc::CallbackServerContext* context,
                                           const v1::BackupDatabaseRequest* request,
                                           v1::BackupDatabaseResponse* response) override {
    return unary(wire_, context, "/loopwright.v1.FleetService/BackupDatabase", request, response,
                 CALL(backup_database), wire_.bulk);
  }
  UNARY_OF("loopwright.v1.FleetService", QuarantineDevice, quarantine_device,
           v1::QuarantineDeviceRequest, v1::DeviceStatus)
  UNARY_OF("loopwright.v1.FleetService", RequeueJob, requeue_job, v1::RequeueJobRequest,
           v1::JobStatus)
  UNARY_OF("loopwright.v1.FleetService", GetFleet, get_fleet, v1::GetFleetRequest, v1::Fleet)

 private:
  const Wire& wire_;
  Fleet& subject_;
};

class OperationCalls : public longrunning::Operations::CallbackService {
 public:
  explicit OperationCalls(const Wire& wire) : wire_(wire), subject_(wire.service->studies) {}
  UNARY_OF("google.longrunning.Operations", GetOperation, get_operation,
           longrunning::GetOperationRequest, longrunning::Operation)
  UNARY_OF("google.longrunning.Operations", ListOperations, list_operations,
           longrunning::ListOperationsRequest, longrunning::ListOperationsResponse)
  UNARY_OF("google.longrunning.Operations", CancelOperation, cancel_operation,
           longrunning::CancelOperationRequest, google::protobuf::Empty)
  UNARY_OF("google.longrunning.Operations", DeleteOperation, delete_operation,
           longrunning::DeleteOperationRequest, google::protobuf::Empty)
  grpc::ServerUnaryReactor* WaitOperation(grpc::CallbackServerContext* context,
                                          const longrunning::WaitOperationRequest* request,
                                          longrunning::Operation* response) override {
    return wait_operation(wire_, context, request, response);
  }

 private:
  const Wire& wire_;
  Studies& subject_;
};

constexpr const char* kReadServices[] = {"loopwright.v1.ScheduleService"};
constexpr const char* kWriteServices[] = {"loopwright.v1.TuningService",
                                          "loopwright.v1.AgentService",
                                          "loopwright.v1.FleetService"};

}  // namespace

struct Server::Impl {
  explicit Impl(Service& service, const ServerOptions& options)
      : lookups(options.lookup_threads, kMostWaiting, service.core->liveness),
        reads(options.read_threads, kMostWaiting, service.core->liveness),
        writes(options.write_threads, kMostWaiting, service.core->liveness),
        adapting(options.adapting_threads, kMostWaiting, service.core->liveness),
        bulk(options.bulk_threads, kMostWaiting, service.core->liveness, kBulkNice),
        wire{&service, service.core.get(), &lookups, &reads, &writes, &adapting, &bulk,
             options.credentials != nullptr},
        tuning(wire), agents(wire), schedules(wire), fleet(wire), operations(wire) {}

  Executor lookups, reads, writes, adapting, bulk;
  Wire wire;
  TuningCalls tuning;
  AgentCalls agents;
  ScheduleCalls schedules;
  FleetCalls fleet;
  OperationCalls operations;
  std::string address;
  int port = 0;
  std::unique_ptr<grpc::Server> server;
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

absl::StatusOr<std::unique_ptr<Server>> Server::start(Service& service,
                                                      const ServerOptions& options) {
  grpc::EnableDefaultHealthCheckService(true);
  if (options.reflection) grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  auto impl = std::make_unique<Impl>(service, options);
  grpc::ServerBuilder builder;
  const std::shared_ptr<grpc::ServerCredentials> credentials =
      options.credentials != nullptr ? options.credentials : grpc::InsecureServerCredentials();
  // Health, reflection and unknown methods are gRPC's own affair: nothing of ours would ask.
  if (options.credentials != nullptr) credentials->SetAuthMetadataProcessor(
      deny_by_default(&service.core->denied));
  std::vector<int> ports(options.address.numeric.size(), 0);
  for (size_t i = 0; i < ports.size(); ++i) {
    builder.AddListeningPort(options.address.numeric[i], credentials, &ports[i]);
  }
  grpc::Service* const services[] = {&impl->tuning, &impl->agents, &impl->schedules, &impl->fleet,
                                     &impl->operations};
  for (grpc::Service* one : services) builder.RegisterService(one);
  builder.SetMaxReceiveMessageSize(static_cast<int>(std::min<int64_t>(
      kReceivedTimes * service.core->options.config.quotas.message_bytes,
      std::numeric_limits<int>::max())));
  builder.SetResourceQuota(grpc::ResourceQuota("loopwright").Resize(128 << 20));
  // Clients ask in their own time (gRPC's default would cut them off).
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             static_cast<int>(options.least_ping_ms));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS,
                             static_cast<int>(options.keepalive.time_ms));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             static_cast<int>(options.keepalive.timeout_ms));
  // Connections are renewed now and then, so that new certificates come into use.
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, 3'600'000);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, 180'000);
  // A peer that never ends its handshake holds a socket.
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             static_cast<int>(options.handshake_ms));
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  impl->server = builder.BuildAndStart();
  const bool bound = impl->server != nullptr &&
                     std::find(ports.begin(), ports.end(), 0) == ports.end();
  if (!bound && options.address.unix_path.empty()) {
    return absl::UnavailableError(concat("cannot listen on ", options.address.text,
                                         ": the address is taken or not of this machine"));
  }
  impl->address = options.address.text;
  if (options.address.unix_path.empty()) {
    const std::string& first = options.address.numeric[0];
    impl->address = concat(first.substr(0, first.rfind(':')), ":", ports[0]);
    impl->port = ports[0];
  }
  std::unique_ptr<Server> server(new Server(std::move(impl)));
  server->set_serving(true, true);
  return server;
}

Server::~Server() { stop(0); }

const std::string& Server::address() const { return impl_->address; }
int Server::port() const { return impl_->port; }

void Server::set_serving(bool reads, bool writes) {
  grpc::HealthCheckServiceInterface* health = impl_->server->GetHealthCheckService();
  if (health == nullptr) return;
  for (const char* name : kReadServices) health->SetServingStatus(name, reads);
  for (const char* name : kWriteServices) health->SetServingStatus(name, writes);
  health->SetServingStatus("", reads && writes);
}

void Server::stop(double grace_s) {
  if (impl_->server == nullptr) return;
  set_serving(false, false);
  impl_->wire.core->stop_giving();
  impl_->server->Shutdown(std::chrono::system_clock::now() +
                          std::chrono::milliseconds(static_cast<int64_t>(1000 * grace_s)));
  impl_->server->Wait();
  for (Executor* one : {&impl_->lookups, &impl_->reads, &impl_->writes, &impl_->adapting,
                        &impl_->bulk}) {
    one->stop();
  }
  impl_->server.reset();
}

}  // namespace lw
