// Idempotency: a call that changes something stores its answer under the caller's request_id in the
// transaction that changes it, so a repetition gets the same answer and changes nothing.
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "tuner_db/sql/database.h"

namespace lw {

constexpr int64_t kRequestsKeptMs = int64_t{48} * 3600 * 1000;

// sha256 of its bytes, with maps in order: equal messages have equal ones.
std::string message_digest(const google::protobuf::Message& message);

// INVALID_ARGUMENT (MISSING_REQUEST_ID).
absl::Status check_request_id(std::string_view id);

// Runs `body`, which fills `response`, unless (actor, id) has been answered: then `response` is
// that answer. INVALID_ARGUMENT: no id, or an absurd one; ABORTED (REQUEST_ID_REUSED): the id came
// with another request.
absl::Status once(WriteTransaction& tx, std::string_view actor, std::string_view id,
                  std::string_view method, const google::protobuf::Message& request,
                  int64_t now_ms, google::protobuf::Message* response,
                  absl::FunctionRef<absl::Status()> body);

// Deletes at most `count` answers that nobody will ask for again.
absl::Status forget_requests(WriteTransaction& tx, int64_t now_ms, int count);

}  // namespace lw
