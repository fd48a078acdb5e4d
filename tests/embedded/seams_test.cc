// What a program says that links neither drivers nor gRPC: which of them it would need, and what to
// do instead. All else it does.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "loopwright/client.h"
#include "schedules/targets/named_machine.h"
#include "schedules/targets/target.h"

namespace lw {
namespace {

using ::testing::HasSubstr;

TEST(Embedded, AsksNoDriver) {
  for (const char* name : {"opencl:0", "cuda:0"}) {
    const absl::Status status = named_machine(name).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << name;
    EXPECT_THAT(status.message(), HasSubstr(name));
    EXPECT_THAT(status.message(), HasSubstr("--json"));
  }
  EXPECT_EQ(named_machine("x86_avx2")->name, "x86_avx2");
  EXPECT_EQ(named_machine("no_such").status().code(), find_target("no_such").status().code());
}

TEST(Embedded, LooksUp) {
  const auto client = ScheduleClient::open({});
  ASSERT_TRUE(client.ok()) << client.status();
  const auto task = make_client_task("matmul M=24 N=40 K=16", {.target = "x86_avx2", .threads = 1});
  ASSERT_TRUE(task.ok()) << task.status();
  const auto found = (*client)->lookup(*task);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->answer.outcome, Rung::kDefault);
  EXPECT_NE(found->answer.kernel, nullptr);
}

// The library beside this program makes a source, or says what is wrong with a server's name.
TEST(Embedded, LoadsWhatSpeaksToServers) {
  const absl::Status opened = ScheduleClient::open({.server = "127.0.0.1:1"}).status();
  if (!LW_REMOTE) {
    EXPECT_EQ(opened.code(), absl::StatusCode::kUnavailable) << opened;
    EXPECT_THAT(opened.message(), HasSubstr("libloopwright_remote.so.0"));
    return;
  }
  EXPECT_TRUE(opened.ok()) << opened;
  const absl::Status beyond = ScheduleClient::open({.server = "example.com:7070"}).status();
  EXPECT_EQ(beyond.code(), absl::StatusCode::kInvalidArgument) << beyond;
  EXPECT_THAT(beyond.message(), HasSubstr("example.com"));
}

}  // namespace
}  // namespace lw
