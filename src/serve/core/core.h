// What all calls of the service share, whichever they are (src/serve/service/): the database and
// who writes to it, the time, the limits, what is counted, who waits. calls.h has what they do with
// it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "src/base/liveness.h"
#include "src/serve/access/auth.h"
#include "src/serve/access/limits.h"
#include "src/serve/core/bell.h"
#include "src/serve/core/metrics.h"
#include "src/serve/core/parked.h"
#include "src/serve/queue/leases.h"
#include "src/serve/rows/audit.h"
#include "src/serve/rows/clock.h"
#include "src/serve/studies/searcher.h"
#include "tuner_db/sql/group_commit.h"

namespace lw {

struct Caller {
  Identity identity;
  std::string peer;
  Stop stop;                               // when it has gone, or waits no longer
  std::string_view method;                 // of the permissions' table; "" in tests
};

struct ServiceOptions {
  std::string version;
  ServeConfig config;
  LeaseRules rules;
  SearcherOptions searcher;
  std::string backup_folder;               // where BackupDatabase writes; "": beside the database
  std::function<int64_t()> monotonic_ms;   // tests; empty: the system's
  int64_t online_ms = 60'000;              // an agent silent for longer is offline
  int64_t forget_ms = 60'000;              // how often it looks for what is to be forgotten
  std::function<void(const StudyRow&, const Stop&)> before_search;  // tests; SearchSeat's
  bool search = true;                      // false: serves, but leaves studies to other daemons
};

// Each member is thread-safe.
struct Core {
  // Fails when the database cannot be read. The database is migrated already.
  static absl::StatusOr<std::unique_ptr<Core>> open(std::shared_ptr<Database> database,
                                                    const ServiceOptions& options);

  int64_t now_ms() const { return clock.now_ms(); }
  int64_t online_since() const { return now_ms() - options.online_ms; }
  // Whose certificates are revoked, from now on: their calls in flight and streams end too.
  void deny(std::set<std::string> names);
  // Gives no more work and parks nobody; what is in flight is answered.
  void stop_giving();
  // What is wrong with it: "" when all is well; "stopping", "the database is read-only: ...".
  std::string problem() const;

  const std::shared_ptr<Database> database;
  const std::unique_ptr<Store> store;
  const ServiceOptions options;
  ServiceClock clock;
  int64_t started_ms = 0;
  Metrics metrics;
  Liveness liveness;
  RateLimiter limiter;
  InFlight in_flight;
  DenyList denied;
  Refusals refusals;
  ParkedCalls parked;
  Bell bell;                               // of the service's own threads
  std::atomic<bool> is_stopping = false;
  // What a transaction did, told after it has committed to all who wait for such news. Set before
  // the first call; as it is, nobody waits.
  std::function<void(const Changes&)> changed = [](const Changes&) {};
  GroupCommit commit;                      // last: its thread uses all above

 private:
  Core(std::shared_ptr<Database> opened, const ServiceOptions& given);
};

}  // namespace lw
