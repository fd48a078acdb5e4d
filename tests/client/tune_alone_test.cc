// Tuning forks, and so refuses a process that has threads: what they hold would stay held in the
// workers.
#include <future>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "loopwright/task.h"
#include "loopwright/tuning.h"

namespace lw {
namespace {

TEST(TuneAlone, RefusesAProcessWithThreads) {
  const absl::StatusOr<Task> task = make_task({"matmul", "M=8", "N=8", "K=8"}, {.threads = 1});
  ASSERT_TRUE(task.ok()) << task.status();
  const auto store = open_measurements("");
  ASSERT_TRUE(store.ok()) << store.status();
  std::promise<void> end;
  std::thread thread([&] { end.get_future().wait(); });
  const absl::StatusOr<Choice> refused = tune(*task, **store, {.trials = 2, .seconds = 20});
  end.set_value();
  thread.join();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), testing::HasSubstr("as a child process"));
}

}  // namespace
}  // namespace lw
