// Slices of the processor: what is asked for holds for the threads that are started then.
#include "src/base/slices.h"

#include <sched.h>
#include <sys/resource.h>

#include <thread>

#include "gtest/gtest.h"

namespace lw {
namespace {

using std::chrono::microseconds;

TEST(Slices, ThreadsThatAreStartedThenHaveThemToo) {
  bool has = false;
  microseconds before, first, second;
  int nice = 0, policy = -1;
  std::thread([&] {
    setpriority(PRIO_PROCESS, 0, 3);
    before = slice_length();
    has = prefer_slices(microseconds(700));
    std::thread([&] { first = slice_length(); }).join();
    second = slice_length();
    nice = getpriority(PRIO_PROCESS, 0);
    policy = sched_getscheduler(0);
  }).join();
  EXPECT_EQ(nice, 3) << "nothing else changes";
  EXPECT_EQ(policy, SCHED_OTHER);
  if (!has) GTEST_SKIP() << "this kernel has no such wishes";
  EXPECT_NE(before, microseconds(700));
  EXPECT_EQ(first, microseconds(700));
  EXPECT_EQ(second, microseconds(700));
}

}  // namespace
}  // namespace lw
