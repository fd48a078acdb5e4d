#include "src/serve/queue/probation.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/base/message.h"
#include "src/serve/messages/names.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

constexpr double kTimes = 3;               // what is expected
constexpr int64_t kMostPatience = 5;       // times that

}  // namespace

void Probation::begin(const std::string& queue, const JobRow& job, double expected_s,
                      int64_t losses, const LeaseRules& rules, int64_t now_ms) {
  if (rules.probation_ms == 0) return;
  const int64_t once_ms =
      std::max(rules.probation_ms, static_cast<int64_t>(1e3 * kTimes * expected_s));
  leases_[job.id] = {queue, job.epoch, now_ms + once_ms * std::min(1 + losses, kMostPatience)};
}

void Probation::end(int64_t job) { leases_.erase(job); }

absl::Status Probation::take_back(WriteTransaction& tx, const std::string& queue,
                                  const LeaseRules& rules, int64_t now_ms, Changes* changes) {
  std::vector<std::pair<int64_t, int64_t>> overdue;  // job, epoch
  for (const auto& [job, lease] : leases_) {
    if (lease.queue == queue && lease.due_ms <= now_ms) overdue.emplace_back(job, lease.epoch);
  }
  for (const auto& [id, epoch] : overdue) {
    leases_.erase(id);
    ASSIGN_OR_RETURN(std::optional<JobRow> job, find_job(tx, id));
    if (!job || job->state != v1::JOB_STATE_LEASED || job->epoch != epoch) continue;
    RETURN_IF_ERROR(note_loss(tx, job->agent, rules, now_ms));
    if (std::count(job->avoid.begin(), job->avoid.end(), job->agent) == 0) {
      job->avoid.push_back(job->agent);
    }
    job->avoid_until = now_ms + rules.confirm_ms;
    const std::string why = concat(device_name(job->device), ", which has yet to show that it "
                                   "finishes jobs, had it for ", now_ms - job->leased_ms, " ms");
    RETURN_IF_ERROR(release_job(tx, *std::move(job), why, rules, now_ms, now_ms, changes));
  }
  return absl::OkStatus();
}

int64_t Probation::next_ms(const std::string& queue) const {
  int64_t next = 0;
  for (const auto& [job, lease] : leases_) {
    if (lease.queue == queue && (next == 0 || lease.due_ms < next)) next = lease.due_ms;
  }
  return next;
}

}  // namespace lw
