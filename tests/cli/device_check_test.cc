// `device check` as a user runs it, on the simulator and on the examples.
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/support/cli_fixture.h"

namespace lw {
namespace {

using ::testing::HasSubstr;

TEST_F(CliTest, ADeviceIsChecked) {
  const auto script = [&](const std::string& name, const std::string& line) {
    write(name, "#!/bin/sh\n" + line + "\n");
    std::filesystem::permissions(path(name), std::filesystem::perms::owner_all);
  };
  script("simulator", "exec " LW_BINARY_DIR "/npu_sim exec");
  script("hello", "echo hello");
  const CliRun run = cli("device check exec:./simulator --target npu_edge16");
  EXPECT_EQ(run.code, 0) << run.out << run.err;
  EXPECT_THAT(run.out, HasSubstr("npu_sim 0."));
  EXPECT_THAT(run.out, ::testing::Not(HasSubstr("FAILED")));
  const CliRun failed = cli("device check exec:./hello --json");
  EXPECT_EQ(failed.code, 3);
  EXPECT_THAT(failed.err, HasSubstr("1 of 14 checks failed"));
  const nlohmann::json checks = failed.json()["checks"];
  EXPECT_EQ(checks[0]["check"], "greets");
  EXPECT_EQ(checks[0]["passed"], false);
  EXPECT_THAT(checks[0]["seen"].get<std::string>(), HasSubstr("no frame begins with 'hello"));
  EXPECT_EQ(checks[1]["skipped"], true);
}

// What docs/exec.md shows is a device, if no good one.
TEST_F(CliTest, TheExampleIsADevice) {
  const CliRun run = cli("device check exec:" LW_SOURCE_DIR "/examples/exec/words.py --json "
                         "--target npu_edge16");
  EXPECT_EQ(run.code, 0) << run.out << run.err;
  EXPECT_EQ(run.json()["failed"], 0);
}

TEST_F(CliTest, WhatCannotBeCheckedIsSaid) {
  EXPECT_EQ(cli("device check npu:one").code, 1);
  EXPECT_THAT(cli("device check npu:one").err, HasSubstr("write exec:PROGRAM"));
  EXPECT_THAT(cli("device check exec:true --target npu_mid33").err, HasSubstr("npu_mid33"));
  EXPECT_EQ(cli("device check exec:true --target npu_mid33").code, 1);
  EXPECT_THAT(cli("device check exec:true --target x86_avx2").out, HasSubstr("it has ended"));
  EXPECT_EQ(cli("device check exec:true --limit 0").code, 1);
}

}  // namespace
}  // namespace lw
