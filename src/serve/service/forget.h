// Forgetting, in pieces: a look now and then, and while there is something, one piece after the
// other, each behind whatever else waits for the writer, leases first of all. Nobody waits for it.
// Thread-safe.
#pragma once

#include <mutex>

#include "src/serve/core/core.h"
#include "src/serve/rows/deletion.h"

namespace lw {

class Forgetter {
 public:
  // `core` outlives it.
  explicit Forgetter(Core& core) : core_(core) {}
  // A piece of what retention lets go, if it is time and none is on its way.
  absl::Status step();
  void soon();                             // the next step looks again
  void tell();                             // the log, of what went since it was told last

 private:
  Core& core_;
  std::mutex mutex_;                       // guards all below
  bool is_busy_ = false;                   // a piece is on its way to the writer
  int64_t next_ms_ = 0;                    // when to look again
  int64_t told_ms_ = 0;                    // when the log was told
  Forgotten since_;                        // then
};

}  // namespace lw
