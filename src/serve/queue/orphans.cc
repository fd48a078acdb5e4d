#include "src/serve/queue/orphans.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/base/message.h"
#include "tuner_db/messages/messages.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

constexpr size_t kHoldersKept = 8;         // of a job, as many as it has attempts
constexpr size_t kLargest = 32 << 10;      // a job of 32 candidates has some 20 KiB
constexpr int64_t kOfAgent = 500, kInAll = 10'000;
constexpr int64_t kGoAtOnce = 20;          // where there are too many, for each that comes

// What is kept of it: the fields that this version knows, in bounds.
v1::JobResult essence_of(const v1::JobResult& result) {
  v1::JobResult kept = result;
  kept.DiscardUnknownFields();
  kept.set_failure_detail(as_detail(result.failure_detail()));
  const size_t bytes = kept.ByteSizeLong();
  if (bytes <= kLargest) return kept;
  kept.clear_outcomes();
  kept.set_failure_detail(as_detail(concat(result.outcomes_size(), " outcomes of ", bytes,
                                           " bytes are left out; ", result.failure_detail())));
  return kept;
}

}  // namespace

void note_holder(JobRow* job) {
  job->holders.emplace_back(job->epoch, job->agent);
  if (job->holders.size() > kHoldersKept) job->holders.erase(job->holders.begin());
}

absl::Status keep_orphan(WriteTransaction& tx, const JobRow& job, std::string_view agent,
                         const v1::JobResult& result, int64_t now_ms) {
  const bool held = std::any_of(job.holders.begin(), job.holders.end(), [&](const auto& holder) {
    return holder.first == result.epoch() && holder.second == agent;
  });
  if (!held) return absl::OkStatus();
  {
    Query before = tx.query("SELECT 1 FROM orphans WHERE job = ? AND epoch = ?", job.id,
                            result.epoch());
    if (before.next()) return absl::OkStatus();
    RETURN_IF_ERROR(before.status());
  }
  const std::string bytes = essence_of(result).SerializeAsString();
  int64_t id = 0;
  {
    Query query = tx.query("INSERT INTO orphans (job, epoch, agent, received_ms, result) "
                           "VALUES (?,?,?,?,?) RETURNING id",
                           job.id, result.epoch(), agent, now_ms, Blob{bytes});
    if (query.next()) id = query.integer(0);
    RETURN_IF_ERROR(query.run());
  }
  RETURN_IF_ERROR(tx.query("DELETE FROM orphans WHERE id IN (SELECT id FROM orphans WHERE "
                           "agent = ? AND id <= (SELECT id FROM orphans WHERE agent = ? "
                           "ORDER BY id DESC LIMIT 1 OFFSET ?) ORDER BY id LIMIT ?)",
                           agent, agent, kOfAgent, kGoAtOnce).run());
  return tx.query("DELETE FROM orphans WHERE id IN (SELECT id FROM orphans WHERE id <= ? "
                  "ORDER BY id LIMIT ?)", id - kInAll, kGoAtOnce).run();
}

}  // namespace lw
