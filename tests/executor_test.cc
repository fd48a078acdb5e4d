// The threads behind the server's calls. Runs under ThreadSanitizer with every change.
#include "src/serve/executor.h"

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
  Executor executor(3);
  std::vector<std::thread> posters;
  for (int t = 0; t < 4; ++t) {
    posters.emplace_back([&] {
      for (int i = 0; i < 500; ++i) executor.post([&] { ++ran; });
    });
  }
  for (std::thread& poster : posters) poster.join();
  executor.stop();
  EXPECT_EQ(ran, 2000);
}

// As when the last call that a server finishes lets it go: whoever posted it may not be back yet.
TEST(Executor, ATaskMayBeWhatItsOwnerWaitedFor) {
  for (int round = 0; round < 500; ++round) {
    auto executor = std::make_unique<Executor>(2);
    std::promise<void> ran;
    std::thread poster([&ran, raw = executor.get()] { raw->post([&ran] { ran.set_value(); }); });
    ran.get_future().wait();
    executor.reset();
    poster.join();
  }
}

}  // namespace
}  // namespace lw
