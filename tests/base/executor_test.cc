// The threads behind the server's calls. Runs under ThreadSanitizer with every change.
#include "src/serve/wire/executor.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace lw {
namespace {

TEST(Executor, WhatWasPostedRunsBeforeItStops) {
  std::atomic<int> ran = 0;
  Liveness liveness;
  Executor executor(3, 10, liveness);
  std::vector<std::thread> posters;
  for (int t = 0; t < 4; ++t) {
    posters.emplace_back([&] {
      for (int i = 0; i < 500; ++i) executor.post([&] { ++ran; }, "counting");
    });
  }
  for (std::thread& poster : posters) poster.join();
  executor.stop();
  EXPECT_EQ(ran, 2000);
}

TEST(Executor, ThreadsGiveWayAsTheyWereTold) {
  Liveness liveness;
  const int ours = getpriority(PRIO_PROCESS, 0), theirs_to_be = std::min(ours + 2, 19);
  Executor polite(1, 10, liveness, theirs_to_be);
  std::promise<int> theirs;
  polite.post([&] { theirs.set_value(getpriority(PRIO_PROCESS, 0)); }, "asking");
  EXPECT_EQ(theirs.get_future().get(), theirs_to_be);
  EXPECT_EQ(getpriority(PRIO_PROCESS, 0), ours);
}

TEST(Executor, OffersNoMoreThanMayWait) {
  Liveness liveness;
  Executor executor(1, 2, liveness);
  std::promise<void> began, release;
  std::atomic<int> ran = 0;
  ASSERT_TRUE(executor.offer([&] {
    began.set_value();
    release.get_future().wait();
  }, "first"));
  began.get_future().wait();
  EXPECT_TRUE(executor.offer([&ran] { ++ran; }, "second"));
  EXPECT_TRUE(executor.offer([&ran] { ++ran; }, "third"));
  EXPECT_FALSE(executor.offer([&ran] { ++ran; }, "fourth"));
  executor.post([&ran] { ++ran; }, "a stream's next step");
  release.set_value();
  executor.stop();
  EXPECT_EQ(ran, 3);
}

TEST(Executor, WhatHangsIsSeenAndNamed) {
  Liveness liveness(std::chrono::seconds(5));
  Executor executor(2, 10, liveness);
  const auto now = Liveness::Clock::now();
  std::promise<void> began, release, other;
  executor.post([&] {
    began.set_value();
    release.get_future().wait();
  }, "BatchLookup", now + std::chrono::seconds(1));
  began.get_future().wait();
  executor.post([&] { other.set_value(); }, "GetStudy", now);
  other.get_future().wait();
  EXPECT_EQ(liveness.problem(now + std::chrono::seconds(5)), "") << "within its patience";
  while (liveness.hanging(now + std::chrono::seconds(9)) > 1) std::this_thread::yield();
  EXPECT_EQ(liveness.hanging(now + std::chrono::seconds(9)), 1);
  EXPECT_EQ(liveness.problem(now + std::chrono::seconds(9)),
            "a thread hangs in BatchLookup, 8 s beyond its time");
  release.set_value();
  executor.stop();
  EXPECT_EQ(liveness.hanging(now + std::chrono::hours(1)), 0);
}

TEST(Executor, ASignOfLifeIsATimeOfItsOwn) {
  Liveness liveness(std::chrono::seconds(5));
  const auto now = Liveness::Clock::now();
  Liveness::Task task(liveness, "a search", now);
  EXPECT_EQ(liveness.hanging(now + std::chrono::seconds(6)), 1);
  task.lives_until(now + std::chrono::seconds(30));
  EXPECT_EQ(liveness.hanging(now + std::chrono::seconds(34)), 0);
  EXPECT_EQ(liveness.hanging(now + std::chrono::seconds(36)), 1);
}

// As when the last call that a server finishes lets it go: whoever posted it may not be back yet.
TEST(Executor, ATaskMayBeWhatItsOwnerWaitedFor) {
  Liveness liveness;
  for (int round = 0; round < 500; ++round) {
    auto executor = std::make_unique<Executor>(2, 10, liveness);
    std::promise<void> ran;
    std::thread poster([&ran, raw = executor.get()] { raw->post([&ran] { ran.set_value(); }, ""); });
    ran.get_future().wait();
    executor.reset();
    poster.join();
  }
}

}  // namespace
}  // namespace lw
