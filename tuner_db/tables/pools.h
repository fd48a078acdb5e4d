// What the tables derive from measurements: each trace's pooled statistics (`candidates`), and the
// key's revision, by which readers find what changed.
#pragma once

#include <vector>

#include "tuner_db/sql/database.h"
#include "tuner_db/store.h"

namespace lw {

// Appends checked measurements of a stored key and pools them; their ids, in the same order.
absl::Status append_measurements(WriteTransaction& tx, int64_t key,
                                 const std::vector<Measurement>& measurements,
                                 std::vector<int64_t>* ids);

// The same for what may be there already (Store::put); `stored`: how many were new or count now.
absl::Status put_measurements(WriteTransaction& tx, int64_t key,
                              const std::vector<Measurement>& measurements,
                              std::vector<int64_t>* ids, int64_t* stored);

// Recomputes what the row of `candidates` derives from its measurements and from whether it is
// withdrawn; whether what is given out for its key may have changed, which the caller notes.
absl::StatusOr<bool> update_pool(WriteTransaction& tx, int64_t candidate);

// Store::top of a stored key: whether it has one; of `row` all but the key.
absl::StatusOr<bool> best_of_key(Transaction& tx, int64_t key, int count, BestRow* row);

// Store::prune.
absl::Status prune_measurements(WriteTransaction& tx, int keep, int64_t unix_ms, int64_t* deleted);

// Notes that what is given out for the key may have changed: moves its revision, which only grows,
// and its changed_ms, by the database's clock. (A reader that polls changed_ms looks a while back:
// a transaction may commit after one that began later.)
absl::Status note_change(WriteTransaction& tx, int64_t key);

}  // namespace lw
