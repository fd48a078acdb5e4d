// Runs a kernel as a machine of many threads may, and says what it does that depends on who comes
// first. Slow and exact: each element's accesses are remembered. Thread-safe.
#pragma once

#include "absl/status/status.h"
#include "src/build/interpreter/execute.h"

namespace lw {

struct EmulateOptions {
  ItemOrder order;                         // what is reported, but for what comes first, does not
                                           // depend on it; results of kernels with races may
  int64_t most_groups = 0;                 // of each of the body's loops: the first, the last and
                                           // some between; 0: all. What others would have written is
                                           // not there
  int64_t most_accesses = 0;               // to elements, of prepack and body each; 0: any number
};

// Runs prepack, if any, and body on arguments as build/context.h says, with memories of its own.
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
