// Which schedules of other workloads are worth trying first on this one.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "schedules/steps.h"
#include "tuner_db/store.h"

namespace lw {

// The fastest schedules of other shapes and targets of the key's structure with as many threads;
// nearest shapes first, a few. Empty when the workload was never put. Errors: the store's.
absl::StatusOr<std::vector<Trace>> warm_traces(const Store& store, const Key& key);

// Traces of the key that others say are fast (measurements that do not count) and that nobody here
// has measured: the fastest first, a few. Measured here, an honest one becomes the best.
std::vector<std::string> unconfirmed_traces(const std::vector<Measurement>& measurements,
                                            TimeKind kind);

}  // namespace lw
