// A server of schedules as the client sees it: one call for a whole module. The gRPC one is made by
// grpc/grpc_source.h; tests have their own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tuner_db/ladder/ladder.h"
#include "tuner_db/ladder/withdrawn_list.h"

namespace lw {

// What a server says is withdrawn.
struct WithdrawnSaid {
  WithdrawnList list;
  std::string etag;                        // the server's name of the list; "": nobody said it
};

class ScheduleSource {
 public:
  virtual ~ScheduleSource() = default;
  // For each query the candidates of one rung, nearest first; none: a miss. It should be back after
  // `deadline_ms`, which is longer than the client waits. Called from one thread at a time.
  virtual absl::StatusOr<std::vector<std::vector<Match>>> batch_lookup(
      absl::Span<const LookupRequest> queries, int deadline_ms) = 0;
  // What is withdrawn; nothing: it is the list with this etag. Called from one thread at a time,
  // another one than batch_lookup().
  virtual absl::StatusOr<std::optional<WithdrawnSaid>> poll_withdrawn(const std::string& etag,
                                                                      int deadline_ms) = 0;
};

}  // namespace lw
