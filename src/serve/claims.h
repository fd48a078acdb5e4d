// Which job a device takes next.
//
// Between clients: of the one with the smallest (running + 1) / weight x 2^(-priority / 100), the
// score of Buildbarn's queue. Of a client's jobs: those of the highest priority; of their studies
// the one whose turn it is (study_turns.h); of its jobs the oldest of the workload that the device has
// prepared, else the oldest. Jobs are short (LeaseRules::slice_s), and of one study a device has no
// more at hand than about that, so that who comes next waits for no more. A study that the device
// has just worked for, or that has just begun, keeps its turn for a moment (LeaseRules::hold_ms)
// while it has no job, against those whose candidates take far longer; clients do not wait for each
// other's.
//
// All REQUIRE: inside a write(). Each is re-runnable; `changes` is only added to.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/serve/leases.h"
#include "src/serve/study_turns.h"

namespace lw {

// How much of the fleet each client uses now, and may; made of the database every now and then,
// kept up in between by its user. Turns are not in the database.
struct Shares {
  std::map<std::string, int> running;      // leased jobs by client
  std::map<std::string, double> weights;
  double usual_weight = 1;                 // of those that are not there
  StudyTurns turns;
};
absl::StatusOr<Shares> read_shares(Database& database);
// Of which there are queued jobs, ready or not.
absl::StatusOr<std::vector<std::string>> queues(Database& database);
// An older daemon's jobs say no backend; their studies do. At most `count`; how many there were.
absl::StatusOr<int> adopt_old_jobs(Database& database, int count, Changes* changes);

// Of a device that has prepared `last_study` and `last_position`.
struct Claims {
  std::string last_study;
  int last_position = -1;
  int count = 1;                           // that it wants at most
  size_t most_bytes = SIZE_MAX;            // of the jobs, and one job more
};
struct Claimed {
  std::vector<JobRow> jobs;                // leased now
  bool withheld = false;                   // there are more, for when it has done what it has,
  int64_t held_until_ms = 0;               // or for then, if the study that it waits for has none;
                                           // 0: it waits for none
  bool waits_anew = false;                 // what it leaves another device may take
};
absl::StatusOr<Claimed> claim_jobs(Database& database, const Holder& holder, const Claims& claims,
                                   Shares& shares, const LeaseRules& rules, int64_t now_ms,
                                   Changes* changes);

}  // namespace lw
