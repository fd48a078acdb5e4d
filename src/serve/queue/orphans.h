// Orphans: results of leases that were lost. They are kept for whoever looks into why, and never
// learned from; so there are few of them: only from who held the job at that epoch, one for each
// lease, without their outcomes where these are large, so many of an agent and in all. The oldest
// go first, and all of them with time (retention.h).
#pragma once

#include "src/serve/rows/rows.h"

namespace lw {

// Remembers who holds the job at its epoch. REQUIRES: it is leased.
void note_holder(JobRow* job);

// Keeps the result, unless its agent did not hold the job at its epoch or sent one before.
absl::Status keep_orphan(WriteTransaction& tx, const JobRow& job, std::string_view agent,
                         const loopwright::v1::JobResult& result, int64_t now_ms);

}  // namespace lw
