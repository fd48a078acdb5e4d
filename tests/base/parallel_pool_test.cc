// The threads of a parallel loop: each index once, each worker one at a time.
#include "src/base/parallel_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace lw {
namespace {

TEST(Pool, EveryIndexOnceAndWorkersNeverOverlap) {
  for (int workers : {1, 2, 3, 8}) {
    ParallelPool pool(workers);
    for (int64_t count : {0, 1, 2, 7, 100, 1000}) {
      struct Record {
        std::vector<std::atomic<int>> seen, busy;
      } record{std::vector<std::atomic<int>>(count), std::vector<std::atomic<int>>(workers)};
      pool.run(
          count,
          [](void* closure, int64_t i, int64_t worker) {
            Record& r = *static_cast<Record*>(closure);
            EXPECT_EQ(r.busy[worker].fetch_add(1), 0);
            r.seen[i].fetch_add(1);
            r.busy[worker].fetch_sub(1);
          },
          &record);
      for (std::atomic<int>& seen : record.seen) EXPECT_EQ(seen.load(), 1);
    }
  }
}

TEST(Pool, ManyShortCallsAndPausesBetween) {
  ParallelPool pool(2);
  int64_t sums[2] = {0, 0};
  for (int call = 0; call < 2000; ++call) {
    pool.run(
        8,
        [](void* closure, int64_t i, int64_t worker) {
          static_cast<int64_t*>(closure)[worker] += i;
        },
        sums);
    if (call % 500 == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // they fall asleep
  }
  EXPECT_EQ(sums[0] + sums[1], 2000 * 28);
}

}  // namespace
}  // namespace lw
