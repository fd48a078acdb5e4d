#include "src/runtime/process_pool.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>

#include "src/base/parallel_pool.h"

namespace lw {
namespace {

struct ProcessPool {
  std::mutex turn;
  std::unique_ptr<ParallelPool> threads;   // under turn; as many as any call has asked for
};

// Never destroyed: its threads may outlive the destructors of statics, and fork() leaves the child
// the parent's with a mutex that nobody there can unlock and threads that are not there.
std::atomic<ProcessPool*>& current() {
  static std::atomic<ProcessPool*>* place = [] {
    auto* made = new std::atomic<ProcessPool*>(new ProcessPool);
    return made;
  }();
  return *place;
}

void forget_in_child() { current().store(new ProcessPool, std::memory_order_relaxed); }

ProcessPool& pool() {
  static const int registered = pthread_atfork(nullptr, nullptr, forget_in_child);
  static_cast<void>(registered);
  return *current().load(std::memory_order_acquire);
}

std::atomic<int> wanted{0};

}  // namespace

int pool_workers() {
  const int set = wanted.load(std::memory_order_relaxed);
  return set > 0 ? set : static_cast<int>(allowed_cpus().size());
}

void set_pool_workers(int workers) { wanted.store(std::max(workers, 0), std::memory_order_relaxed); }

void pool_parallel_for(void* share, int64_t count,
                       void (*body)(void* closure, int64_t index, int64_t worker), void* closure) {
  const int workers = static_cast<PoolShare*>(share)->workers;
  if (workers <= 1 || count <= 1) {
    for (int64_t i = 0; i < count; ++i) body(closure, i, 0);
    return;
  }
  ProcessPool& mine = pool();
  const std::lock_guard<std::mutex> lock(mine.turn);
  if (mine.threads == nullptr || mine.threads->workers() < workers) {
    mine.threads.reset();
    mine.threads = std::make_unique<ParallelPool>(workers);
  }
  mine.threads->run(count, body, closure, workers);
}

}  // namespace lw
