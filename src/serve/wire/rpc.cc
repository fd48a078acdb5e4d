#include "src/serve/wire/rpc.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "google/protobuf/descriptor.h"
#include "src/base/log.h"
#include "src/base/message.h"
#include "src/serve/core/calls.h"
#include "src/serve/messages/errors.h"

namespace lw {

namespace v1 = loopwright::v1;

namespace {

// It is held as streams are.
constexpr std::string_view kWaitOperation = "/google.longrunning.Operations/WaitOperation";

int64_t steady_ns(std::chrono::steady_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

// Whether a method of ours takes or gives more than one message.
bool is_stream(std::string_view method) {
  static const absl::flat_hash_set<std::string_view> streams = [] {
    absl::flat_hash_set<std::string_view> found;
    for (const Permission& permission : permissions()) {
      std::string name(permission.method.substr(1));
      std::replace(name.begin(), name.end(), '/', '.');
      const auto* known =
          google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(name);
      if (known != nullptr && (known->client_streaming() || known->server_streaming()))
        found.insert(permission.method);
    }
    return found;
  }();
  return streams.contains(method);
}

}  // namespace

Admission admit(const Wire& wire, const grpc::CallbackServerContext& context,
                std::string_view method, Deadline deadline, double cost) {
  Admission admission;
  admission.begun = std::chrono::steady_clock::now();
  admission.caller.peer = context.peer();
  admission.permission = find_permission(method);
  if (admission.permission != nullptr) admission.caller.method = admission.permission->method;
  const std::shared_ptr<const grpc::AuthContext> peer = context.auth_context();
  absl::StatusOr<Identity> identity = identity_of(*peer, wire.tls);
  if (!identity.ok()) {
    admission.status = identity.status();
    return admission;
  }
  admission.caller.identity = *std::move(identity);
  admission.status = authorize(admission.caller.identity, method);
  if (admission.status.ok()) {
    admission.status = wire.core->denied.check(admission.caller.identity);
  }
  if (!admission.status.ok()) return admission;
  if (deadline == Deadline::kWanted &&
      context.deadline() == std::chrono::system_clock::time_point::max()) {
    admission.status = api_error(v1::ERROR_REASON_MISSING_DEADLINE,
                                 "the call has no deadline; set one");
    return admission;
  }
  admission.status = wire.core->limiter.take(admission.caller.identity,
                                             admission.permission->call_class,
                                             steady_ns(admission.begun), cost);
  if (!admission.status.ok()) return admission;
  absl::StatusOr<std::shared_ptr<void>> seat = wire.core->in_flight.enter(
      admission.caller.identity, is_stream(method) || method == kWaitOperation);
  if (seat.ok()) admission.seat = *std::move(seat);
  admission.status = seat.status();
  return admission;
}

absl::Status check_size(const Wire& wire, const google::protobuf::Message& message) {
  const int64_t most = wire.core->options.config.quotas.message_bytes;
  const auto bytes = static_cast<int64_t>(message.ByteSizeLong());
  if (bytes <= most) return absl::OkStatus();
  return api_error(v1::ERROR_REASON_TOO_LARGE,
                   concat("the message has ", bytes, " bytes, at most ", most,
                          " are taken (GetCapabilities.max_message_bytes)"));
}

Executor* executor_of(const Wire& wire, CallClass call_class) {
  switch (call_class) {
    case CallClass::kRead: return wire.reads;
    case CallClass::kLookup: return wire.lookups;
    case CallClass::kRecords: return wire.bulk;
    default: return wire.writes;
  }
}

Stop::Clock::time_point deadline_of(const grpc::CallbackServerContext& context) {
  const std::chrono::duration<double> left =
      context.deadline() - std::chrono::system_clock::now();
  return after_seconds(left.count());
}

grpc::Status conclude(const Wire& wire, const Admission& admission, std::string_view method,
                      std::string_view subject, absl::Status status) {
  const bool explained = status.ok() || reason_of(status) != v1::ERROR_REASON_UNSPECIFIED ||
                         status.code() == absl::StatusCode::kCancelled ||
                         status.code() == absl::StatusCode::kDeadlineExceeded ||
                         status.code() == absl::StatusCode::kUnimplemented;
  if (!explained) {
    const std::string id = make_id(wire.core->now_ms());
    log(Level::kError, "internal_error", {{"id", id}, {"method", method},
                                          {"error", status.ToString()}});
    status = api_error(v1::ERROR_REASON_INTERNAL,
                       concat("internal error ", id, "; the server's log says more"));
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - admission.begun;
  const std::string code = absl::StatusCodeToString(status.code());
  const bool known = admission.permission != nullptr;
  const auto latency = is_stream(method) ? std::nullopt : std::optional(seconds.count());
  count_call(wire.core->metrics, known ? method : "unknown", code, latency);
  if (known && admission.permission->audited && !status.ok()) {
    note_refusal(*wire.core, admission.caller, method, subject, status);
  }
  if (log_enabled(Level::kDebug)) {
    log(Level::kDebug, "rpc", {{"method", method}, {"code", code}, {"seconds", seconds.count()},
                               {"peer", admission.caller.peer}});
  }
  return to_grpc(status);
}

}  // namespace lw
