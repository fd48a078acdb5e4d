// The audit log's lines: of what is done with it, of what is refused behind.
#include "src/serve/service/impl.h"

namespace lw {

absl::Status Service::audit_done(Database& database, const Caller& caller,
                                 std::string_view method, std::string_view subject) {
  return write_audit(database, {now_ms(), actor(caller), caller.peer,
                                std::string(caller.method.empty() ? method : caller.method),
                                std::string(subject), "OK"});
}

void Service::note_refusal(const Caller& caller, std::string_view method, std::string_view subject,
                           const absl::Status& outcome) {
  const AuditLine line = {now_ms(), caller.identity.name.empty() ? "nobody" : actor(caller),
                          caller.peer, std::string(method), std::string(subject),
                          concat(absl::StatusCodeToString(outcome.code()), " ",
                                 reason_name(reason_of(outcome)))};
  std::shared_ptr<int64_t> id;
  if (!refusals_.note(line, &id)) return;
  commit_->submit([line, id](Database& database) { return write_audit(database, line, id.get()); },
                  [id](const absl::Status& stored) {
    if (!stored.ok()) *id = 0;             // another row may get its number
  });
}

// Ids are set and read by the thread that commits, in this order. A line that could not be written
// (a full disk) has none, and its count is lost with it.
absl::Status Service::write_refusals(int64_t until_ms) {
  const std::vector<Refusals::Line> lines = refusals_.take(until_ms);
  if (lines.empty()) return absl::OkStatus();
  return commit_->run([&](Database& database) -> absl::Status {
    for (const Refusals::Line& line : lines) {
      RETURN_IF_ERROR(database.query("UPDATE audit SET count = count + ? WHERE id = ?", line.more,
                                     *line.id).run());
    }
    return absl::OkStatus();
  });
}

}  // namespace lw
