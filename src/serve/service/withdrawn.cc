// Records that nobody shall be given any more: withdrawn with a reason, listed, restored.
#include <algorithm>

#include "src/net/times.h"
#include "src/serve/core/calls.h"
#include "src/serve/messages/paging.h"
#include "src/serve/service/schedules.h"
#include "src/serve/studies/study_best.h"
#include "tuner_db/invariants.h"
#include "tuner_db/ladder/withdrawn_list.h"
#include "tuner_db/messages/messages.h"
#include "tuner_db/tables/withdrawn.h"

namespace lw {

namespace v1 = loopwright::v1;

namespace {

constexpr size_t kLongestEvidence = 64 << 10;
constexpr int kMostKeys = 1000;            // of a call that asks for some
constexpr int64_t kPollAgainMs = 1000;

v1::WithdrawnRecord message_of(const Withdrawal& row) {
  v1::WithdrawnRecord message;
  message.set_digest(record_digest(row.key, row.trace));
  message.set_kernel_digest(kernel_digest(row.key, row.kernel_hash));
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

absl::Status Schedules::withdraw_record(const Caller& caller,
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
  RETURN_IF_ERROR(change(core_, caller, "WithdrawRecord", request, response,
                         [&](WriteTransaction& tx, Changes* changes) -> absl::Status {
    row.unix_ms = core_.now_ms();
    const absl::Status status = store_in(tx)->withdraw(row);
    if (absl::IsNotFound(status)) return no_record(record_digest(row.key, row.trace));
    RETURN_IF_ERROR(status);
    RETURN_IF_ERROR(find_withdrawn(tx, record_digest(row.key, row.trace), &row));
    *response = message_of(row);             // with the kernel that it was found to be of
    return reconsider_studies(tx, row.key, changes);
  }));
  // At once, not behind: after the answer nobody is given it.
  return store_error(keeper_.index().refresh_withdrawn());
}

absl::Status Schedules::restore_record(const Caller& caller,
                                       const v1::RestoreRecordRequest& request,
                                       v1::RestoreRecordResponse* response) {
  RETURN_IF_ERROR(change(core_, caller, "RestoreRecord", request, response,
                         [&](WriteTransaction& tx, Changes*) -> absl::Status {
    Withdrawal row;
    const absl::Status found = find_withdrawn(tx, request.digest(), &row);
    if (absl::IsNotFound(found)) return no_record(request.digest());
    RETURN_IF_ERROR(found);
    *response->mutable_record() = message_of(row);
    return store_in(tx)->restore(row.key, row.trace);
  }));
  return store_error(keeper_.index().refresh_withdrawn());
}

// The digests of all are read for each page, of the rows only those that it shows.
absl::Status Schedules::list_withdrawn(const Caller&, const v1::ListWithdrawnRequest& request,
                                       v1::ListWithdrawnResponse* response) {
  if (request.keys_size() > kMostKeys) return bad_field("keys", concat("at most ", kMostKeys));
  std::string list = "withdrawn";
  for (const v1::Key& key : request.keys()) list += key.SerializeAsString();
  ASSIGN_OR_RETURN(const Page page, page_of(list, request.page_size(), request.page_token()));
  std::vector<Key> keys;
  for (const v1::Key& key : request.keys()) keys.push_back(from_proto(key));
  return view(core_, [&](Transaction& tx) -> absl::Status {
    std::vector<std::string> digests;
    RETURN_IF_ERROR(list_withdrawn_digests(tx, keys, &digests));
    // After the one with the token's digest; if that was restored meanwhile, from the beginning.
    size_t at = 0;
    const auto last = std::find(digests.begin(), digests.end(), page.after);
    if (last != digests.end()) at = static_cast<size_t>(last - digests.begin()) + 1;
    size_t bytes = 0;
    for (; at < digests.size() && !page.is_over(response->records_size(), bytes); ++at) {
      Withdrawal row;
      RETURN_IF_ERROR(find_withdrawn(tx, digests[at], &row));
      *response->add_records() = message_of(row);
      bytes += response->records(response->records_size() - 1).ByteSizeLong();
    }
    if (at < digests.size()) {
      response->set_next_page_token(page_token(page.list, digests[at - 1]));
    }
    return absl::OkStatus();
  });
}

// From memory: whoever keeps records asks every minute.
absl::Status Schedules::poll_withdrawn(const Caller&, const v1::PollWithdrawnRequest& request,
                                       v1::PollWithdrawnResponse* response) {
  const std::shared_ptr<const LadderIndex::Withdrawn> known = keeper_.index().withdrawn();
  if (known == nullptr) {                  // an empty list would bring back what is withdrawn
    return retry_later(v1::ERROR_REASON_STORE_UNAVAILABLE, "what is withdrawn is being read",
                       kPollAgainMs);
  }
  response->set_etag(known->etag);
  response->set_unchanged(request.etag() == known->etag);
  if (!response->unchanged()) response->set_digests(known->list.bytes());
  return absl::OkStatus();
}

}  // namespace lw
