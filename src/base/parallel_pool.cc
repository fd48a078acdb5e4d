#include "src/base/parallel_pool.h"

#include <sched.h>

#include <chrono>
#include <cstdlib>

namespace lw {
namespace {

// Long enough to bridge the serial stretches between a kernel's parallel loops and between the
// calls of a timed sample, short enough not to burn a core that nobody asked for.
constexpr std::chrono::microseconds kSpin(50);

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until `ready()` or until kSpin has passed; whether it became ready.
template <class Ready>
bool spin_until(const Ready& ready) {
  const std::chrono::steady_clock::time_point give_up = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 64; ++i) {
      if (ready()) return true;
      pause_briefly();
    }
  } while (std::chrono::steady_clock::now() < give_up);
  return ready();
}

}  // namespace

ParallelPool::ParallelPool(int workers, const std::vector<int>& cpus) {
  if (workers < 1) std::abort();  // (No CHECK: lw_runner, which has no abseil, has threads too.)
  for (int w = 0; w < workers; ++w) lanes_.push_back(std::make_unique<Lane>());
  for (int w = 1; w < workers; ++w) {
    const int cpu = w < static_cast<int>(cpus.size()) ? cpus[w] : -1;
    lanes_[w]->thread = std::thread([this, w, cpu] {
      if (cpu >= 0) pin_to({cpu});
      serve(w);
    });
  }
}

ParallelPool::~ParallelPool() {
  stop_ = true;
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::unique_ptr<Lane>& lane : lanes_) {
    if (lane->thread.joinable()) lane->thread.join();
  }
}

void ParallelPool::run(int64_t count, Body body, void* closure, int most) {
  const int64_t all = static_cast<int64_t>(lanes_.size());
  const int64_t workers = most > 0 && most < all ? most : all;
  if (workers == 1 || count <= 1) {
    for (int64_t i = 0; i < count; ++i) body(closure, i, 0);
    return;
  }
  for (int64_t w = 0; w < workers; ++w) {
    lanes_[w]->next.store(count * w / workers, std::memory_order_relaxed);
    lanes_[w]->end = count * (w + 1) / workers;
  }
  body_ = body;
  closure_ = closure;
  participants_ = static_cast<int>(workers);
  const uint32_t generation = generation_.fetch_add(1, std::memory_order_release) + 1;
  generation_.notify_all();  // a load when nobody sleeps
  work(0);
  for (int64_t w = 1; w < all; ++w) {
    const auto finished = [&] {
      return lanes_[w]->finished.load(std::memory_order_acquire) == generation;
    };
    while (!spin_until(finished)) std::this_thread::yield();
  }
}

void ParallelPool::serve(int worker) {
  uint32_t seen = 0;
  while (true) {
    const auto called = [&] { return generation_.load(std::memory_order_acquire) != seen; };
    if (!spin_until(called)) generation_.wait(seen, std::memory_order_acquire);
    // A call cannot begin before all have finished the last: exactly one generation has passed.
    ++seen;
    if (stop_) return;
    if (worker < participants_) work(worker);
    lanes_[worker]->finished.store(seen, std::memory_order_release);
  }
}

void ParallelPool::work(int worker) {
  const int workers = participants_;
  for (int k = 0; k < workers; ++k) {
    Lane& lane = *lanes_[(worker + k) % workers];
    int64_t i;
    while ((i = lane.next.fetch_add(1, std::memory_order_relaxed)) < lane.end) {
      body_(closure_, i, worker);
    }
  }
}

bool pin_to(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : cpus) CPU_SET(cpu, &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {0};
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

}  // namespace lw
