// Calls that last: watching a study, awaiting an operation, export and import of records, and the
// agents' Synchronize. Each is an object of its own that gRPC calls back and that deletes itself.
// Internal to src/serve/wire.
#pragma once

#include "src/serve/wire/rpc.h"

namespace lw {

grpc::ServerWriteReactor<loopwright::v1::StudyEvent>* watch_study(
    const Wire& wire, grpc::CallbackServerContext* context,
    const loopwright::v1::WatchStudyRequest* request);

grpc::ServerUnaryReactor* wait_operation(const Wire& wire, grpc::CallbackServerContext* context,
                                         const google::longrunning::WaitOperationRequest* request,
                                         google::longrunning::Operation* response);

grpc::ServerUnaryReactor* synchronize(const Wire& wire, grpc::CallbackServerContext* context,
                                      const loopwright::v1::SynchronizeRequest* request,
                                      loopwright::v1::SynchronizeResponse* response);

grpc::ServerWriteReactor<loopwright::v1::ExportRecordsResponse>* export_records(
    const Wire& wire, grpc::CallbackServerContext* context,
    const loopwright::v1::ExportRecordsRequest* request);

grpc::ServerReadReactor<loopwright::v1::ImportRecordsRequest>* import_records(
    const Wire& wire, grpc::CallbackServerContext* context,
    loopwright::v1::ImportRecordsResponse* response);

}  // namespace lw
