// Agents, as far as this daemon has heard of them, and their Synchronize calls, which it answers or
// parks: what AgentService promises. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "src/serve/core/core.h"
#include "src/serve/queue/synchronize.h"

namespace lw {

class Agents {
 public:
  // `core` outlives it.
  explicit Agents(Core& core);

  using Done = std::function<void(absl::Status, loopwright::v1::SynchronizeResponse)>;
  // Does not block: `done` is called once, from any thread. What it returns may be given to
  // abandon().
  std::shared_ptr<void> synchronize(
      const Caller& caller, std::shared_ptr<const loopwright::v1::SynchronizeRequest> request,
      Done done);
  // The caller has gone: it gets no work, and `done` is called soon (of a call that came twice:
  // when both callers have gone, or with the other one's).
  void abandon(const std::shared_ptr<void>& call);

  // The queue has jobs: one who waits for such work is woken.
  void note_queued(const std::string& queue);
  // The agent's devices may do other things than when it asked.
  void review(const std::string& agent);
  void forget_silent();
  size_t size() const;                     // those of which something is remembered

 private:
  struct Sync;                             // a Synchronize call on its way
  struct Known;                            // an agent, as far as this daemon has heard of it
  bool join(const std::shared_ptr<Sync>& sync, Done done);
  void attempt(std::shared_ptr<Sync> sync);
  bool needs_write(Sync& sync);
  bool is_latest(const Sync& sync);
  void answered(std::shared_ptr<Sync> sync, absl::Status status);
  void park(std::shared_ptr<Sync> sync, uint64_t version);
  Known& known(const std::string& agent);  // REQUIRES: mutex_ held

  Core& core_;
  Shares shares_;                          // used by the commit's thread alone
  mutable std::mutex mutex_;               // guards all below
  std::map<std::string, std::shared_ptr<Known>> agents_;
  std::set<std::string> maybe_queued_;     // queues that may have jobs ready
};

}  // namespace lw
