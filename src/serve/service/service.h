// The service itself: everything the API promises, without gRPC. src/serve/wire/server.h puts it on
// the wire; tests call it directly.
//
// Several of them may share one PostgreSQL database: each holds nothing but what it could read
// again. Thread-safe. Calls block for as long as the database takes, but for Agents::synchronize(),
// which answers through a callback and may park the call.
#pragma once

#include <memory>

#include "src/serve/service/agents.h"
#include "src/serve/service/fleet.h"
#include "src/serve/service/house.h"
#include "src/serve/service/index_keeper.h"
#include "src/serve/service/schedules.h"
#include "src/serve/service/studies.h"

namespace lw {

class Service {
 public:
  // Fails when the database cannot be read. The database is migrated already.
  static absl::StatusOr<std::unique_ptr<Service>> start(std::shared_ptr<Database> database,
                                                        const ServiceOptions& options);
  ~Service();

  const std::unique_ptr<Core> core;        // outlives all below
  IndexKeeper keeper;
  Studies studies;
  Agents agents;
  Schedules schedules;
  Fleet fleet;
  House house;
  std::unique_ptr<Searcher> searcher;      // null: studies are left to other daemons

 private:
  explicit Service(std::unique_ptr<Core> opened);
  void tell(const Changes& changes);
};

}  // namespace lw
