#include "src/serve/core/calls.h"

namespace lw {

absl::Status write_error(const Core& core, const absl::Status& status) {
  constexpr int64_t kRetryMs = 5000;
  const bool of_database = absl::IsUnavailable(status) || absl::IsFailedPrecondition(status);
  const bool plain =
      of_database && reason_of(status) == loopwright::v1::ERROR_REASON_UNSPECIFIED;
  const std::string problem = plain ? core.commit.problem() : "";
  if (problem.empty()) return store_error(status);
  return retry_later(loopwright::v1::ERROR_REASON_READ_ONLY, problem, kRetryMs);
}

absl::StatusOr<bool> is_known(Core& core, const Caller& caller, const std::string& request_id) {
  bool known = false;
  const std::string who = actor(caller);   // outlives the query
  RETURN_IF_ERROR(view(core, [&](Transaction& tx) -> absl::Status {
    Query query = tx.query("SELECT 1 FROM requests WHERE actor = ? AND id = ?", who, request_id);
    known = query.next();
    return query.status();
  }));
  return known;
}

absl::Status audit_done(Core& core, WriteTransaction& tx, const Caller& caller,
                        std::string_view method, std::string_view subject) {
  return write_audit(tx, {core.now_ms(), actor(caller), caller.peer,
                          std::string(caller.method.empty() ? method : caller.method),
                          std::string(subject), "OK"});
}

void note_refusal(Core& core, const Caller& caller, std::string_view method,
                  std::string_view subject, const absl::Status& outcome) {
  const AuditLine line = {core.now_ms(), caller.identity.name.empty() ? "nobody" : actor(caller),
                          caller.peer, std::string(method), std::string(subject),
                          concat(absl::StatusCodeToString(outcome.code()), " ",
                                 reason_name(reason_of(outcome)))};
  std::shared_ptr<int64_t> id;
  if (!core.refusals.note(line, &id)) return;
  core.commit.submit(
      [line, id](WriteTransaction& tx) { return write_audit(tx, line, id.get()); },
      [id](const absl::Status& stored) {
        if (!stored.ok()) *id = 0;         // another row may get its number
      });
}

// Ids are set and read by the thread that commits, in this order. A line that could not be written
// (a full disk) has none, and its count is lost with it.
absl::Status write_refusals(Core& core, int64_t until_ms) {
  const std::vector<Refusals::Line> lines = core.refusals.take(until_ms);
  if (lines.empty()) return absl::OkStatus();
  return core.commit.run([&](WriteTransaction& tx) -> absl::Status {
    for (const Refusals::Line& line : lines) {
      RETURN_IF_ERROR(tx.query("UPDATE audit SET count = count + ? WHERE id = ?", line.more,
                               *line.id).run());
    }
    return absl::OkStatus();
  });
}

}  // namespace lw
