// Jobs of devices that have yet to show that they finish what they take: those that never finished one,
// or whose agent has just lost one. Such a job is expected back in some time; after that a device that
// has shown it, and asks for work, may have the job instead (its epoch moves on). So who takes jobs and
// never answers costs a study moments, not a lease. Time grows with what the agent has lost, so that
// who is only slow gets to its end.
//
// Not thread-safe. In memory: after a restart, and between daemons, leases alone bound it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "src/serve/queue/leases.h"

namespace lw {

class Probation {
 public:
  // A device of the queue, whose agent has lost so many in a row, has just taken the job, which is
  // expected to take it so long.
  void begin(const std::string& queue, const JobRow& job, double expected_s, int64_t losses,
             const LeaseRules& rules, int64_t now_ms);
  // Its result is there, or its lease is over.
  void end(int64_t job);
  // The jobs of the queue that are overdue go back to it. Run again, it leaves them to their
  // leases.
  absl::Status take_back(WriteTransaction& tx, const std::string& queue, const LeaseRules& rules,
                         int64_t now_ms, Changes* changes);
  // When the next one of the queue will be overdue; 0: none is out.
  int64_t next_ms(const std::string& queue) const;

 private:
  struct Lease {
    std::string queue;
    int64_t epoch = 0, due_ms = 0;
  };
  std::map<int64_t, Lease> leases_;        // by job
};

}  // namespace lw
