#include "src/runtime/foreign_pool.h"

#include <algorithm>
#include <atomic>
#include <vector>

namespace lw {
namespace {

struct Loop {
  struct Task {
    Loop* loop = nullptr;
    int64_t worker = 0;
  };

  int64_t count = 0;
  void (*body)(void* closure, int64_t index, int64_t worker) = nullptr;
  void* closure = nullptr;
  std::atomic<int64_t> next{0};
  // How many tasks are within, and whether the door is closed: one word, so that none enters a loop
  // whose caller has seen nobody within.
  std::atomic<uint32_t> door{0};
  std::atomic<int> holders{0};             // of this block: tasks that have not begun, and the caller
  std::vector<Task> tasks;

  void work(int64_t worker) {
    for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) {
      body(closure, i, worker);
    }
  }
  void release() {
    if (holders.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
};

constexpr uint32_t kClosed = 1u << 31;

bool enter(std::atomic<uint32_t>* door) {
  uint32_t seen = door->load(std::memory_order_relaxed);
  do {
    if ((seen & kClosed) != 0) return false;
  } while (!door->compare_exchange_weak(seen, seen + 1, std::memory_order_acquire,
                                        std::memory_order_relaxed));
  return true;
}

void run_task(void* argument) {
  const Loop::Task& task = *static_cast<Loop::Task*>(argument);
  Loop& loop = *task.loop;
  if (enter(&loop.door)) {
    loop.work(task.worker);
    if (loop.door.fetch_sub(1, std::memory_order_release) == (kClosed | 1)) loop.door.notify_one();
  }
  loop.release();
}

}  // namespace

void foreign_parallel_for(void* foreign, int64_t count,
                          void (*body)(void* closure, int64_t index, int64_t worker),
                          void* closure) {
  const ForeignPool& pool = *static_cast<ForeignPool*>(foreign);
  const int64_t others = std::min<int64_t>(pool.workers, count) - 1;
  if (others <= 0 || pool.schedule == nullptr) {
    for (int64_t i = 0; i < count; ++i) body(closure, i, 0);
    return;
  }
  Loop* loop = new Loop;
  loop->count = count;
  loop->body = body;
  loop->closure = closure;
  loop->holders.store(static_cast<int>(others) + 1, std::memory_order_relaxed);
  loop->tasks.resize(static_cast<size_t>(others));
  for (int64_t w = 1; w <= others; ++w) {
    Loop::Task& task = loop->tasks[static_cast<size_t>(w - 1)];
    task = {loop, w};
    pool.schedule(pool.pool, run_task, &task);
  }
  loop->work(0);
  uint32_t seen = loop->door.fetch_or(kClosed, std::memory_order_acq_rel) | kClosed;
  while (seen != kClosed) {
    loop->door.wait(seen, std::memory_order_acquire);
    seen = loop->door.load(std::memory_order_acquire);
  }
  loop->release();
}

}  // namespace lw
