// Pieces of what was measured of a key, for readers that must not hold anybody up: bounded in rows,
// in bytes and in what is looked at, however much the key holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "tuner_db/failures.h"
#include "tuner_db/sql/database.h"
#include "tuner_db/store.h"

namespace lw {

// The id of the key in `keys`; 0: it has none.
absl::StatusOr<int64_t> find_key_id(Transaction& tx, const Key& key);

struct HistoryRequest {
  int64_t from = 0;                        // the id after which to go on; 0: from the beginning
  bool newest_first = false;
  int rows = 1000;
  size_t bytes = size_t{1} << 20;          // a row is begun while less than that was read
};
struct HistoryPiece {
  std::vector<Measurement> rows;           // fewer than asked for, or none, may come before the end
  int64_t next = 0;                        // where to go on; 0: that was all
};
absl::StatusOr<HistoryPiece> read_history(Transaction& tx, int64_t key,
                                          const HistoryRequest& request);

// Of all of a key with up to 20,000 measurements; of a larger one, of what came among the database's
// latest 20,000.
absl::StatusOr<std::vector<FailureClass>> read_failures(Transaction& tx, int64_t key);

}  // namespace lw
