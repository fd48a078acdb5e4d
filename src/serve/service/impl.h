// The templates behind Service's calls. Internal to src/serve/service.
#pragma once

#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/message.h"
#include "src/serve/messages/errors.h"
#include "src/serve/messages/names.h"
#include "src/serve/rows/requests.h"
#include "src/serve/service/service.h"

namespace lw {

// Who it is done for: what request ids, quotas and the audit log go by.
inline std::string actor(const Caller& caller) { return identity_text(caller.identity); }

// What a commit said, as the API says it: READ_ONLY while the database cannot be written.
inline absl::Status write_error(const GroupCommit& commit, const absl::Status& status) {
  constexpr int64_t kRetryMs = 5000;
  const bool of_database = absl::IsUnavailable(status) || absl::IsFailedPrecondition(status);
  const bool plain =
      of_database && reason_of(status) == loopwright::v1::ERROR_REASON_UNSPECIFIED;
  const std::string problem = plain ? commit.problem() : "";
  if (problem.empty()) return store_error(status);
  return retry_later(loopwright::v1::ERROR_REASON_READ_ONLY, problem, kRetryMs);
}

template <class Body>
absl::Status Service::view(Body body) {
  return store_error(database_->read(5, body));
}

template <class Request, class Response, class Body>
absl::Status Service::change(const Caller& caller, std::string_view method, const Request& request,
                             Response* response, Body body) {
  auto changes = std::make_shared<Changes>();
  const std::string who = actor(caller);
  const absl::Status status = commit_->run([&](Database& database) -> absl::Status {
    *changes = Changes();
    return once(database, who, request.request_id(), method, request, now_ms(), response,
                [&]() -> absl::Status {
      RETURN_IF_ERROR(body(database, changes.get()));
      return audit_done(database, caller, method, subject_of(request, *response));
    });
  });
  if (status.ok()) changed(*changes);
  return write_error(*commit_, status);
}

}  // namespace lw
