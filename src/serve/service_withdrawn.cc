// Records that nobody shall be given any more: withdrawn with a reason, listed, restored.
#include <algorithm>

#include "src/net/times.h"
#include "src/serve/paging.h"
#include "src/serve/service_impl.h"
#include "src/serve/study_best.h"
#include "tuner_db/invariants.h"
#include "tuner_db/messages.h"

namespace lw {

namespace v1 = loopwright::v1;

namespace {

constexpr size_t kLongestReason = 1000, kLongestEvidence = 64 << 10;

v1::WithdrawnRecord message_of(const Withdrawal& row) {
  v1::WithdrawnRecord message;
  message.set_digest(record_digest(row.key, row.trace));
  *message.mutable_key() = to_proto(row.key);
  message.set_trace(row.trace);
  message.set_reason(row.reason);
  message.set_evidence(row.evidence);
  message.set_actor(row.actor);
  *message.mutable_time() = timestamp(row.unix_ms);
  return message;
}

absl::Status no_record(std::string_view digest) {
  return not_found(v1::ERROR_REASON_RECORD_NOT_FOUND, digest);
}

}  // namespace

absl::Status Service::withdraw_record(const Caller& caller,
                                      const v1::WithdrawRecordRequest& request,
                                      v1::WithdrawnRecord* response) {
  Withdrawal row;
  row.key = from_proto(request.key());
  if (std::string what = defect(row.key); !what.empty()) return bad_field("key", what);
  if (request.reason().empty() || request.reason().size() > kLongestReason) {
    return bad_field("reason", concat("must be given, in at most ", kLongestReason, " bytes"));
  }
  if (request.evidence().size() > kLongestEvidence) {
    return bad_field("evidence", concat("at most ", kLongestEvidence, " bytes"));
  }
  row.trace = request.trace();
  row.reason = request.reason();
  row.evidence = request.evidence();
  row.actor = actor(caller);
  RETURN_IF_ERROR(change(caller, "WithdrawRecord", request, response,
                         [&](Database& database, Changes* changes) -> absl::Status {
    row.unix_ms = now_ms();
    const absl::Status status = store_->withdraw(row);
    if (absl::IsNotFound(status)) return no_record(record_digest(row.key, row.trace));
    RETURN_IF_ERROR(status);
    *response = message_of(row);
    return reconsider_studies(database, *store_, row.key, changes);
  }));
  // At once, not behind: after the answer nobody is given it.
  return store_error(index_->refresh_withdrawn());
}

absl::Status Service::restore_record(const Caller& caller, const v1::RestoreRecordRequest& request,
                                     v1::RestoreRecordResponse* response) {
  RETURN_IF_ERROR(change(caller, "RestoreRecord", request, response,
                         [&](Database&, Changes*) -> absl::Status {
    ASSIGN_OR_RETURN(const std::vector<Withdrawal> rows, store_->withdrawn());
    for (const Withdrawal& row : rows) {
      if (record_digest(row.key, row.trace) != request.digest()) continue;
      *response->mutable_record() = message_of(row);
      return store_->restore(row.key, row.trace);
    }
    return no_record(request.digest());
  }));
  return store_error(index_->refresh_withdrawn());
}

absl::Status Service::list_withdrawn(const Caller&, const v1::ListWithdrawnRequest& request,
                                     v1::ListWithdrawnResponse* response) {
  ASSIGN_OR_RETURN(const Page page,
                   page_of("withdrawn", request.page_size(), request.page_token()));
  absl::StatusOr<std::vector<Withdrawal>> rows = store_->withdrawn();
  if (!rows.ok()) return store_error(rows.status());
  // After the one with the token's digest; if that was restored meanwhile, from the beginning.
  auto at = rows->begin();
  if (!page.after.empty()) {
    const auto last = std::find_if(rows->begin(), rows->end(), [&](const Withdrawal& row) {
      return record_digest(row.key, row.trace) == page.after;
    });
    if (last != rows->end()) at = last + 1;
  }
  for (; at != rows->end() && response->records_size() < page.size; ++at) {
    *response->add_records() = message_of(*at);
  }
  if (at != rows->end()) {
    response->set_next_page_token(
        page_token(page.list, response->records(response->records_size() - 1).digest()));
  }
  return absl::OkStatus();
}

}  // namespace lw
