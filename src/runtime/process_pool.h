// The one pool of threads that this process' kernels share, however many there are: made at the first
// parallel call, never destroyed, not pinned. Its threads sleep 50 us after the last call. Callers
// from several threads take turns, a parallel loop each. After fork() the child has none, and makes
// its own when it asks. Thread-safe.
#pragma once

#include <cstdint>

namespace lw {

// How many workers a call may have, the caller included: what was set, else the processors that the
// calling thread may run on.
int pool_workers();
// 0: as many as processors. Calls under way keep theirs.
void set_pool_workers(int workers);

// What lw_context::pool points to while a kernel runs on the pool.
struct PoolShare {
  int workers = 1;
};
// lw_context::parallel_for of a PoolShare.
void pool_parallel_for(void* share, int64_t count,
                       void (*body)(void* closure, int64_t index, int64_t worker), void* closure);

}  // namespace lw
