// Runs a kernel as a machine of many threads may, and says what it does that depends on who comes
// first. Slow and exact: each element's accesses are remembered. Thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "src/build/interpreter/execute.h"

namespace lw {

struct EmulateOptions {
  ItemOrder order;                         // what is reported, but for what comes first, does not
                                           // depend on it; results of kernels with races may
  // Of the body's parallel loops, by statement, the groups that are run (part.h); empty: all. What
  // others would have written is not there.
  std::vector<std::vector<int64_t>> groups;
  int64_t most_accesses = 0;               // of prepack and body each, to elements or to eight of them
                                           // that follow each other; 0: any number
};

// Runs prepack, if any, and body on arguments as loopwright/context.h says, with memories of its own.
// kInternal says what went wrong first, and where; the arguments then hold anything:
//   a race: two items of a group touch the same bytes, at least one writes, and no barrier is
//     between; or two groups of one loop do, whose order nothing says, unless both write the same
//   an access out of bounds; a read of managed, private or workspace bytes that were never written
//   items that part around a barrier, or where they exchange registers
//   an access to what is on its way, a write of what a product on its way reads, and what is on its
//     way where the group ends
// kInvalidArgument: blocks, which have no items. kResourceExhausted: more accesses than there may
// be. REQUIRES: what verify asks but for bounds and for
// where barriers stand.
absl::Status emulate(const Kernel& kernel, void* const* arguments,
                     const EmulateOptions& options = {});

}  // namespace lw
