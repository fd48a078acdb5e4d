// Asks a server now and then what is withdrawn, on a thread of its own that nobody waits for.
#pragma once

#include <functional>
#include <memory>

#include "src/client/source.h"
#include "src/client/withdrawn_cache.h"

namespace lw {

// Thread-safe. Destroying it waits for a call in progress for `patience_ms` at most; the source and
// the cache live on until that call is back.
class WithdrawnPoll {
 public:
  // At once unless some process asked within `every_ms`, by the cache; then every `every_ms` (10 at
  // least). `unix_ms` tells ages; the thread calls it.
  WithdrawnPoll(std::shared_ptr<ScheduleSource> source, std::shared_ptr<WithdrawnCache> cache,
                int every_ms, int patience_ms, std::function<int64_t()> unix_ms);
  ~WithdrawnPoll();

 private:
  struct State;
  const int patience_ms_;
  std::shared_ptr<State> state_;           // shared with the thread
};

}  // namespace lw
