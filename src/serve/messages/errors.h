// Errors of the API: an absl::Status that carries google.rpc details as payloads, on its way to a
// grpc::Status whose details hold a google.rpc.Status. Inside the service only absl::Status is
// seen.
//
// Reasons are the names of loopwright.v1.ErrorReason; every error that leaves the server has one. A
// status without (our bug, or a library's) leaves as INTERNAL with an id that the log explains.
#pragma once

#include <grpcpp/support/status.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "loopwright/v1/errors.pb.h"

namespace lw {

using Reason = loopwright::v1::ErrorReason;

// The general form. `reason` decides the code (errors.proto groups them).
absl::Status api_error(Reason reason, std::string_view message);

// INVALID_ARGUMENT naming the field by its path: "spec.workloads[2].program".
absl::Status bad_field(std::string_view field, std::string_view problem,
                       Reason reason = loopwright::v1::ERROR_REASON_INVALID_FIELD);
// NOT_FOUND of "studies/..." and the like.
absl::Status not_found(Reason reason, std::string_view name);
// RESOURCE_EXHAUSTED or UNAVAILABLE, with the time after which to try again.
absl::Status retry_later(Reason reason, std::string_view message, int64_t delay_ms);
// The same, OVERLOADED: a queue of the server is full, which a second may change.
absl::Status overloaded(std::string_view message);

// What a Store or a Database said, as the API says it: a full disk is UNAVAILABLE and READ_ONLY.
// Statuses that have a reason already stay as they are.
absl::Status store_error(const absl::Status& status);

// kUnspecified if it has none.
Reason reason_of(const absl::Status& status);
std::string_view reason_name(Reason reason);  // without the prefix

// Both directions; from_grpc also takes statuses of servers that send no details.
grpc::Status to_grpc(const absl::Status& status);
absl::Status from_grpc(const grpc::Status& status);
// The delay that the server asked for; 0: none.
int64_t retry_delay_ms(const absl::Status& status);

}  // namespace lw
