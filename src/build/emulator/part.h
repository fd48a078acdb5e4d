// Which groups of a kernel's loops some of its results need: to judge a kernel by which is too much
// to be emulated whole.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "src/kernel/kernel.h"

namespace lw {

struct PartOfKernel {
  // By statement of the body: of a parallel loop those of its groups, ascending; of others nothing.
  std::vector<std::vector<int64_t>> groups;
  // By argument, of outputs: elements that are in the end as the whole kernel makes them, ascending.
  std::vector<std::vector<int64_t>> made;
};

// Of each parallel loop that is the last to store to some output `most` groups at most: its first, its
// last and some between, or of one the last; and of the loops before all those that store what these
// read, or what is outside of parallel loops.
// Their places are found by running what computes places alone. kUnimplemented: places depend on what
// a loop has computed. Arguments are as emulate() takes them; those that are not written are read.
// Thread-safe.
absl::StatusOr<PartOfKernel> part_of(const Kernel& kernel, void* const* arguments, int64_t most);

}  // namespace lw
