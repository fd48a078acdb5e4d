// The index of look-ups, kept up with the database by a thread of its own: what this daemon changed
// as soon as it is noted, what others changed within a second. The first reading of a large
// database takes seconds, in which look-ups are answered exactly or not at all. Thread-safe.
#pragma once

#include <mutex>
#include <thread>
#include <vector>

#include "src/serve/core/core.h"
#include "tuner_db/ladder/index.h"

namespace lw {

class IndexKeeper {
 public:
  // `core` outlives it.
  explicit IndexKeeper(Core& core);
  void start();
  void join();                             // REQUIRES: the core's bell has ended

  LadderIndex& index() { return index_; }
  // The key's best may be another now: looked at behind, or before this returns, so that who puts a
  // record finds it with the next look-up.
  void note(const Key& key);
  void update(const Key& key);

 private:
  void keep();

  Core& core_;
  LadderIndex index_;
  std::mutex mutex_;                       // guards the next
  std::vector<Key> news_;
  std::thread thread_;
};

}  // namespace lw
