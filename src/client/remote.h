// Asking a server without ever waiting for it longer than the deadline.
//
// All calls are made on one background thread. Who asks waits for it until the deadline and then
// goes on without; a late answer (by 20 deadlines at most) still reaches the cache. After
// `failures` in a row (a late answer is one) the circuit is open: nobody waits any more, and after
// a pause, doubled by each further failure, one call is tried in the background; its success closes
// it.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "loopwright/client.h"
#include "tuner_db/ladder/ladder.h"

namespace lw {

class ScheduleSource;

using Replies = std::vector<std::vector<Match>>;

// Thread-safe. Destroying it waits for a call in progress no longer than the deadline; the source
// lives on until that call is back.
class Remote {
 public:
  // `arrived` is called on the background thread for every answer, in time or late.
  using Arrived = std::function<void(const std::vector<LookupRequest>&, const Replies&)>;
  Remote(std::shared_ptr<ScheduleSource> source, RemoteOptions options, Arrived arrived);
  ~Remote();
  // kUnavailable: the server's error, or the circuit is open; kDeadlineExceeded.
  absl::StatusOr<Replies> ask(std::vector<LookupRequest> queries);
  RemoteStats stats() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the background thread
};

}  // namespace lw
