// Measurements that count for nothing any more: found by who gave them and what they are of, marked
// with who annulled them and why, and brought back.
#pragma once

#include <string>
#include <vector>

#include "tuner_db/sql/database.h"
#include "tuner_db/store.h"

namespace lw {

absl::Status find_measurements(Transaction& tx, const MeasurementFilter& filter, int64_t after,
                               int most, std::vector<int64_t>* ids);
// `mark`: annulment_text, or "" to bring them back. `keys`: of those that were not so before.
absl::Status mark_annulled(WriteTransaction& tx, const std::vector<int64_t>& ids,
                           const std::string& mark, std::vector<Key>* keys, int64_t* changed);

}  // namespace lw
