// A framework's pool of threads as lw_context::parallel_for. Such pools promise nothing: they may run
// a task late, one at a time, on the thread that asked, or never. So the caller is worker 0 and works
// until nothing is left, then closes the loop; a task that begins later finds it closed and touches
// nothing but a block that is counted. Who asked waits only for tasks that have entered. So a loop
// ends whatever the pool does, and calls with the same worker never overlap. Thread-safe.
#pragma once

#include <cstdint>

namespace lw {

struct ForeignPool {
  // Makes the pool call task(argument) once, at any time, on any thread.
  void (*schedule)(void* pool, void (*task)(void* argument), void* argument) = nullptr;
  void* pool = nullptr;
  int workers = 1;                         // that the loop may have, the caller included
};

// lw_context::parallel_for of a ForeignPool.
void foreign_parallel_for(void* foreign, int64_t count,
                          void (*body)(void* closure, int64_t index, int64_t worker),
                          void* closure);

}  // namespace lw
