// Which job a device takes next.
//
// Of the client whose turn it is (client_turns.h): a second of a device counts 1 / weight x
// 2^(-priority / 100). Of its jobs: those of the highest priority; of their studies the one whose turn
// it is (study_turns.h); of its jobs the oldest of the workload that the device has prepared, else the
// oldest. Jobs are short (LeaseRules::slice_s), and of one study a device has no more at hand than about
// that, so that who comes next waits for no more.
//
// A study has no job for moments only: while its search thinks. One that the device works for, that has
// just got a result or has just begun keeps its turn then, and so does its client (anticipatory
// scheduling), for
// LeaseRules::hold_ms: against jobs of other clients that take longer than that, and against those of
// the client's studies whose candidates take far longer. A device waits so only once between two jobs,
// and the time is charged to whom it waits for, which bounds what others lose by it.
//
// What takes a transaction is re-runnable; `changes` is only added to.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/serve/queue/client_turns.h"
#include "src/serve/queue/leases.h"
#include "src/serve/queue/probation.h"
#include "src/serve/queue/study_turns.h"

namespace lw {

// Who may use how much of the fleet, and has. Used by one thread; not in the database.
struct Shares {
  struct Wait {                            // of a device, for a job of the study
    std::string queue, client, study;
    double cost = 1;                       // of the client's second
    int64_t since_ms = 0;
  };
  std::map<std::string, double> weights;   // of clients
  double usual_weight = 1;                 // of those that are not there
  ClientTurns clients;
  StudyTurns studies;
  std::map<std::string, Wait> waits;       // by device
  Probation probation;
};
// Of which there are queued jobs, ready or not.
absl::StatusOr<std::vector<std::string>> queues(Transaction& tx);
// An older daemon's jobs say no backend; their studies do. At most `count`; how many there were.
absl::StatusOr<int> adopt_old_jobs(WriteTransaction& tx, int count, Changes* changes);

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
  int64_t held_until_ms = 0;               // or there may be then: the study that it waits for has
                                           // none, a job on probation is overdue; 0: it waits for none
  bool waits_anew = false;                 // what it leaves another device may take
};
absl::StatusOr<Claimed> claim_jobs(WriteTransaction& tx, const Holder& holder, const Claims& claims,
                                   Shares& shares, const LeaseRules& rules, int64_t now_ms,
                                   Changes* changes);

}  // namespace lw
