// What every call goes through, whichever service it is of: who calls, may they, do they wait for
// an answer (a deadline), do they call too often; then the work, on a thread that may block; then
// the error in the API's form, the metric, the log, the audit. Internal to src/serve/wire.
#pragma once

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>

#include "src/serve/messages/errors.h"
#include "src/serve/service/service.h"
#include "src/serve/wire/executor.h"

namespace lw {

struct Wire {
  Service* service = nullptr;
  Core* core = nullptr;                    // the service's
  Executor* lookups = nullptr;             // for what answers from memory
  Executor* reads = nullptr;               // for what reads the database
  Executor* writes = nullptr;              // for what waits for a commit
  Executor* adapting = nullptr;            // for what may compute for long
  Executor* bulk = nullptr;                // for many records at once, which give way to all of these
  bool tls = false;
};

// A call that was let in, or the reason why not.
struct Admission {
  absl::Status status;
  Caller caller;
  const Permission* permission = nullptr;
  std::shared_ptr<void> seat;              // among the calls in flight, until it is answered
  std::chrono::steady_clock::time_point begun;
};
enum class Deadline { kWanted, kNotWanted };
Admission admit(const Wire& wire, const grpc::CallbackServerContext& context,
                std::string_view method, Deadline deadline, double cost = 1);

// How many times Quotas::message_bytes gRPC lets in, whose own refusal has no reason: so that who
// sends a message that is too long, but not absurdly so, hears it from us.
constexpr int64_t kReceivedTimes = 2;
// INVALID_ARGUMENT (TOO_LARGE).
absl::Status check_size(const Wire& wire, const google::protobuf::Message& message);

// In tokens (limits.h): a batch costs as much as its queries one by one.
template <class Request>
double cost_of(const Request& request) {
  if constexpr (requires { request.queries_size(); }) return std::max(1, request.queries_size());
  return 1;
}

// The threads for a call of this class.
Executor* executor_of(const Wire& wire, CallClass call_class);

// By the clock that only goes forward.
Stop::Clock::time_point deadline_of(const grpc::CallbackServerContext& context);

// The end of every call: what is not in the API's form becomes INTERNAL with an id that the log
// explains; counted, logged, and audited where it failed.
grpc::Status conclude(const Wire& wire, const Admission& admission, std::string_view method,
                      std::string_view subject, absl::Status status);

// `call`: what answers it, as absl::Status(const Caller&, const Request&, Response*).
template <class Request, class Response, class Call>
grpc::ServerUnaryReactor* unary(const Wire& wire, grpc::CallbackServerContext* context,
                                std::string_view method, const Request* request,
                                Response* response, Call call, Executor* executor = nullptr) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto admission = std::make_shared<Admission>(
      admit(wire, *context, method, Deadline::kWanted, cost_of(*request)));
  const auto refuse = [&](absl::Status status) {
    reactor->Finish(conclude(wire, *admission, method, subject_of(*request, *response),
                             std::move(status)));
    return reactor;
  };
  if (admission->status.ok()) admission->status = check_size(wire, *request);
  if (!admission->status.ok()) return refuse(admission->status);
  const Stop::Clock::time_point due = deadline_of(*context);
  admission->caller.stop = Stop([context] { return context->IsCancelled(); }, due);
  if (executor == nullptr) executor = executor_of(wire, admission->permission->call_class);
  const bool taken = executor->offer([&wire, context, method, request, response, call, reactor,
                                      admission] {
    absl::Status status = context->IsCancelled()
                              ? absl::CancelledError("the caller has gone")
                              : call(admission->caller, *request, response);
    reactor->Finish(conclude(wire, *admission, method, subject_of(*request, *response),
                             std::move(status)));
  }, std::string(method), due);
  if (!taken) return refuse(overloaded("too many calls of this kind wait to be answered"));
  return reactor;
}

}  // namespace lw
