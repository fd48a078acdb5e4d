// How calls read and change what is stored: once for each request id, with a line in the audit log,
// and whoever waits is told.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/message.h"
#include "src/serve/core/core.h"
#include "src/serve/messages/errors.h"
#include "src/serve/messages/names.h"
#include "src/serve/rows/requests.h"

namespace lw {

constexpr size_t kLongestReason = 1000;    // of a withdrawal or an annulment

// Who it is done for: what request ids, quotas and the audit log go by.
inline std::string actor(const Caller& caller) { return identity_text(caller.identity); }

// What a commit said, as the API says it: READ_ONLY while the database cannot be written.
absl::Status write_error(const Core& core, const absl::Status& status);

// Whether an answer to this request is stored.
absl::StatusOr<bool> is_known(Core& core, const Caller& caller, const std::string& request_id);

// The audit's line of what is done in this transaction.
absl::Status audit_done(Core& core, WriteTransaction& tx, const Caller& caller,
                        std::string_view method, std::string_view subject);
// A call that failed, for the audit log: written behind, those like it within a minute as a count.
// What succeeds is written with what it changes.
void note_refusal(Core& core, const Caller& caller, std::string_view method,
                  std::string_view subject, const absl::Status& outcome);
// The counts of minutes that ended before it.
absl::Status write_refusals(Core& core, int64_t until_ms);

template <class Body>
absl::Status view(Core& core, Body body) {
  return store_error(core.database->read(5, body));
}

// In one transaction of the group commit.
template <class Request, class Response, class Body>
absl::Status change(Core& core, const Caller& caller, std::string_view method,
                    const Request& request, Response* response, Body body) {
  auto changes = std::make_shared<Changes>();
  const std::string who = actor(caller);
  const absl::Status status = core.commit.run([&](WriteTransaction& tx) -> absl::Status {
    *changes = Changes();
    return once(tx, who, request.request_id(), method, request, core.now_ms(), response,
                [&]() -> absl::Status {
      RETURN_IF_ERROR(body(tx, changes.get()));
      return audit_done(core, tx, caller, method, subject_of(request, *response));
    });
  });
  if (status.ok()) core.changed(*changes);
  return write_error(core, status);
}

}  // namespace lw
