// An exec device as its agent knows it: by what its program says of itself.
#include <unistd.h>

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/agent/describe.h"
#include "src/base/files.h"
#include "tests/support/files.h"

namespace lw {
namespace {

using ::testing::HasSubstr;

TEST(ExecAgent, AnotherReleaseIsAnotherDevice) {
  const std::string program = testing::TempDir() + "exec_agent_" + std::to_string(getpid());
  const auto release = [&](const std::string& name) {
    const std::string text = "#!/usr/bin/python3\nimport sys\n"
                             "sys.path.insert(0, '" LW_SOURCE_DIR "/examples/exec')\n"
                             "from lw_exec import serve\nserve('words', '" + name + "', None)\n";
    ASSERT_TRUE(write_file(program, text).ok());
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  };
  const absl::StatusOr<DeviceSpec> spec = parse_device("exec:" + program + ",target=npu_edge16");
  ASSERT_TRUE(spec.ok()) << spec.status();
  release("1");
  const std::string first = fingerprint(*spec);
  EXPECT_EQ(fingerprint(*spec), first);
  const absl::StatusOr<loopwright::v1::Device> device = describe_device(*spec, "", true);
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_THAT(device->facts(), HasSubstr("\"simulator\":\"exec words 1\""));
  EXPECT_EQ(device->target().name(), "npu_edge16");
  release("2");
  EXPECT_NE(fingerprint(*spec), first);
  std::filesystem::remove(program);
  EXPECT_THAT(describe_device(*spec, "", true).status().message(),
              HasSubstr("it has ended (exit status 127)"));
}

// After an update of the agent, whose kernels are others.
TEST(DeviceDescription, OfAnotherCodeGeneratorIsForgotten) {
  const std::string state = testing::TempDir() + "description_" + std::to_string(getpid());
  const absl::StatusOr<DeviceSpec> spec = parse_device("cpu:1");
  ASSERT_TRUE(spec.ok()) << spec.status();
  const absl::StatusOr<loopwright::v1::Device> device = describe_device(*spec, state, false);
  ASSERT_TRUE(device.ok()) << device.status();
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(state)) {
    std::string text = slurp(entry.path());
    const size_t at = text.find(device->backend());
    ASSERT_NE(at, text.npos) << text;
    text.replace(at, device->backend().size(), "llvm 3.4 r0");
    ASSERT_TRUE(write_file(entry.path(), text).ok());
    ++files;
  }
  EXPECT_EQ(files, 1);
  EXPECT_EQ(describe_device(*spec, state, false)->backend(), device->backend());
  std::filesystem::remove_all(state);
}

TEST(OpenClAgent, WhatStandsBehindItsColonIsADevice) {
  EXPECT_EQ(parse_device("opencl:0", "npu_edge16")->which, "0");
  EXPECT_EQ(parse_device("opencl:0")->name, "");
  for (const char* text : {"opencl:", "opencl@1", "opencl:0,target=npu_mid32"}) {
    EXPECT_FALSE(parse_device(text).ok()) << text;
  }
}

}  // namespace
}  // namespace lw
