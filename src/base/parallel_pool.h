// Fork-join over a fixed set of threads: what stands behind lw_context::parallel_for. A call on hot
// workers costs about a microsecond; idle workers sleep.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace lw {

// Thread-compatible: one caller at a time, always the same thread or externally ordered.
class ParallelPool {
 public:
  using Body = void (*)(void* closure, int64_t index, int64_t worker);

  // `workers` counts the caller, which is worker 0; worker w > 0 is a thread of its own, pinned to
  // cpus[w] when `cpus` is that long (the caller pins itself). REQUIRES: workers >= 1.
  explicit ParallelPool(int workers, const std::vector<int>& cpus = {});
  ~ParallelPool();
  ParallelPool(const ParallelPool&) = delete;
  ParallelPool& operator=(const ParallelPool&) = delete;

  int workers() const { return static_cast<int>(lanes_.size()); }

  // body(closure, i, worker) for every i in [0, count), and returns when all are done. Worker w
  // begins with its own contiguous share, the same in every call of equal count (its caches stay
  // warm), and then takes from the others. Calls with the same worker never overlap.
  // `workers`: how many take part, of the first; 0: all.
  void run(int64_t count, Body body, void* closure, int workers = 0);

  // The same as lw_context::parallel_for; `pool` is a ParallelPool*.
  static void parallel_for(void* pool, int64_t count, Body body, void* closure) {
    static_cast<ParallelPool*>(pool)->run(count, body, closure);
  }

 private:
  // One worker's share of the current call; a cache line of its own.
  struct alignas(64) Lane {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
    std::atomic<uint32_t> finished{0};  // the last generation this worker has finished
    std::thread thread;
  };

  void serve(int worker);
  void work(int worker);

  std::vector<std::unique_ptr<Lane>> lanes_;
  Body body_ = nullptr;  // written before generation_, read after it
  void* closure_ = nullptr;
  int participants_ = 0;
  bool stop_ = false;
  alignas(64) std::atomic<uint32_t> generation_{0};
};

// Confines the calling thread (and those it starts) to `cpus`; false where the system refuses.
bool pin_to(const std::vector<int>& cpus);
// The processors this thread may run on, ascending.
std::vector<int> allowed_cpus();

}  // namespace lw
