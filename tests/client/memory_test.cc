// What measuring takes of memory, and what there is.
#include "src/measure/memory.h"

#include <cmath>
#include <filesystem>

#include "gtest/gtest.h"
#include "src/expr/language/text.h"
#include "src/measure/workers/workbench.h"
#include "tests/support/tls_fixture.h"

namespace lw {
namespace {

using tls::write_text;

TEST(Memory, OfAMeasurementIsEachInputInEverySetAndEachOutputThrice) {
  const absl::StatusOr<Program> program = load_workload({"matmul", "M=64", "N=96", "K=48"});
  ASSERT_TRUE(program.ok());
  EXPECT_EQ(measuring_bytes(*program),
            4.0 * (kInputSets * (64 * 48 + 48 * 96) + 3 * 64 * 96));
}

class MemoryLimit : public ::testing::Test {
 protected:
  void SetUp() override {
    put("proc/meminfo", "MemTotal:        1000000 kB\nMemFree:          10 kB\n");
  }
  void put(const std::string& file, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + "/" + file).parent_path());
    write_text(root_ + "/" + file, text);
  }
  const std::string root_ = ::testing::TempDir() + "/memory_" +
                            ::testing::UnitTest::GetInstance()->current_test_info()->name();
  void TearDown() override { std::filesystem::remove_all(root_); }
};

constexpr double kMachine = 1000000.0 * 1024;

TEST_F(MemoryLimit, IsTheMachines) {
  EXPECT_EQ(memory_limit(root_), kMachine);
  put("proc/self/cgroup", "0::/system.slice/agent.service\n");
  put("sys/fs/cgroup/system.slice/agent.service/memory.max", "max\n");
  EXPECT_EQ(memory_limit(root_), kMachine);
  put("sys/fs/cgroup/system.slice/agent.service/memory.max", "8000000000000\n");
  EXPECT_EQ(memory_limit(root_), kMachine) << "more than there is";
  EXPECT_TRUE(std::isinf(memory_limit(root_ + "/nowhere")));
}

TEST_F(MemoryLimit, IsTheLeastOfAllGroupsAbove) {
  put("proc/self/cgroup", "0::/system.slice/agent.service\n");
  put("sys/fs/cgroup/system.slice/agent.service/memory.max", "300000000\n");
  EXPECT_EQ(memory_limit(root_), 3e8);
  put("sys/fs/cgroup/system.slice/memory.max", "200000000\n");
  EXPECT_EQ(memory_limit(root_), 2e8);
  put("sys/fs/cgroup/memory.max", "100000000\n");  // a container's own
  EXPECT_EQ(memory_limit(root_), 1e8);
}

TEST_F(MemoryLimit, KnowsTheFirstVersionToo) {
  put("proc/self/cgroup", "12:cpu,cpuacct:/docker/1f\n9:memory:/docker/1f\n0::/other\n");
  put("sys/fs/cgroup/memory/docker/1f/memory.limit_in_bytes", "400000000\n");
  put("sys/fs/cgroup/cpu/docker/1f/memory.limit_in_bytes", "1\n");
  EXPECT_EQ(memory_limit(root_), 4e8);
}

}  // namespace
}  // namespace lw
