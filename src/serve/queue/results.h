// Taking a job's result: its measurements, the job's end, the study's counters and events, all in
// the caller's transaction.
#pragma once

#include "src/serve/queue/leases.h"

namespace lw {

// What becomes of `result`, which holds for `holder`: the receipt. A result that does not add up is
// refused and its job goes back to the queue; one of a lost lease is kept as an orphan. Errors are
// the database's only.
absl::StatusOr<loopwright::v1::Receipt> accept_result(WriteTransaction& tx, const Holder& holder,
                                                      const loopwright::v1::JobResult& result,
                                                      const LeaseRules& rules, int64_t now_ms,
                                                      Changes* changes);

// The only candidate of a job that was given up crashed whatever ran it: stored as its result.
absl::Status charge_candidate(WriteTransaction& tx, const JobRow& job, int64_t now_ms,
                              Changes* changes);

}  // namespace lw
