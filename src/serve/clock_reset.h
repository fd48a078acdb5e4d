// A clock that was ahead for a while (a database server's, or a machine's before it knew the time)
// stays in the database: the service's time never goes back, so what it stamped then holds moments
// to come, and every later daemon starts from there. This says so, and sets it all back to the
// present.
//
// The present is the database's clock: a file's is this machine's. What was measured, withdrawn and
// audited, and studies' events, keep the times that they were given.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tuner_db/sql/database.h"

namespace lw {

struct ClockState {
  int64_t present_ms = 0;
  int64_t stored_ms = 0;                   // by the latest daemon; 0: there was none
  // Rows that hold a moment to come, or a wait that ends later than any would, by "table.column".
  std::vector<std::pair<std::string, int64_t>> ahead;
};
absl::StatusOr<ClockState> read_clock(Database& database);

// Sets the clock and what holds moments to come to the present, all or nothing: leases end within a
// lease's time unless their agents come back, owners of studies are none, agents rest no longer,
// studies wait as long as they were to. The state of before. REQUIRES: no daemon is at work, which
// would go on with the time that it has.
absl::StatusOr<ClockState> reset_clock(Database& database);

// Whether a daemon stores its time there meanwhile. Takes up to a quarter of a minute.
absl::StatusOr<bool> is_clock_kept(Database& database);

}  // namespace lw
