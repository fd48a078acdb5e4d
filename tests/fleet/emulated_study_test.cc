// A study for another architecture, from the command line to a verified kernel: daemon, agent with
// an emulated device, submit, and what the commands say about times that nobody measured. And one on
// a processor that is reached by a command.
#include <sys/utsname.h>

#include "gmock/gmock.h"
#include "schedules/targets/target.h"
#include "src/measure/cpu/emulator.h"
#include "tests/fleet/fleet_fixture.h"

namespace lw {
namespace {

using ::testing::HasSubstr;

class EmulatedStudyTest : public DaemonTest {};

TEST_F(EmulatedStudyTest, EndsWithAVerifiedKernelAndSaysThatTimesAreEstimated) {
  const absl::StatusOr<Emulator> emulator = find_emulator(*find_target("aarch64_neon"));
  if (!emulator.ok()) GTEST_SKIP() << emulator.status();
  const std::string address = serve();
  ASSERT_FALSE(address.empty()) << log_of("serve");
  launch("arm", concat("agent --server ", address, " --name arm --device qemu-aarch64,isolation=none",
                       " --state ", path("state")));
  ASSERT_TRUE(until_logged("arm", "connected")) << log_of("arm");
  const CliRun run =
      cli(concat("submit matmul M=64 N=48 K=40 --target aarch64_neon --trials 20 "
                 "--threads 1 --watch --server ",
                 address));
  ASSERT_EQ(run.code, 0) << run.out << run.err << log_of("arm");
  EXPECT_THAT(run.out, HasSubstr("(estimated)"));
  const std::string asked =
      concat(" matmul M=64 N=48 K=40 --target aarch64_neon --threads 1 --server ", address);
  EXPECT_THAT(cli("lookup" + asked).out, HasSubstr("(estimated)"));
  EXPECT_THAT(cli("history" + asked).out, HasSubstr("(estimated)"));
  EXPECT_THAT(cli(concat("schedules --server ", address)).out, HasSubstr("(estimated)"));
  EXPECT_EQ(stop("arm"), 0) << log_of("arm");
  EXPECT_EQ(stop("serve"), 0) << log_of("serve");

  const CliRun best =
      cli("best matmul M=64 N=48 K=40 --target aarch64_neon --threads 1 --db service.db --json");
  ASSERT_EQ(best.code, 0) << best.out << best.err;
  EXPECT_EQ(best.json()["outcome"], "exact");
  const nlohmann::json record = best.json()["record"];
  EXPECT_EQ(record["estimated"], true);
  EXPECT_EQ(record["time_kind"], "estimated");
  EXPECT_EQ(record["environment"]["emulated"], true);
  EXPECT_EQ(record["verified"], true);
  EXPECT_THAT(
      cli("best matmul M=64 N=48 K=40 --target aarch64_neon --threads 1 --db service.db").out,
      HasSubstr("(estimated)"));
  EXPECT_THAT(cli("db ls --db service.db").out, HasSubstr("(estimated)"));
}

// A board that holds lw_runner alone, by the command that reaches it: this machine, as it were.
TEST_F(EmulatedStudyTest, ABoardBehindACommandIsMeasured) {
  utsname name;
  ASSERT_EQ(uname(&name), 0);
  const std::string address = serve();
  ASSERT_FALSE(address.empty()) << log_of("serve");
  launch("desk", concat("agent --server ", address, " --name desk --target host --device exec:",
                        LW_BINARY_DIR "/lw_runner_", name.machine, ",name=board --isolation none",
                        " --state ", path("state")));
  ASSERT_TRUE(until_logged("desk", "connected")) << log_of("desk");
  const CliRun run = cli(concat("submit matmul M=32 N=32 K=32 --trials 6 --threads 1 --watch",
                                " --server ", address));
  ASSERT_EQ(run.code, 0) << run.out << run.err << log_of("desk");
  EXPECT_THAT(run.out, ::testing::Not(HasSubstr("(estimated)")));
  EXPECT_EQ(stop("desk"), 0) << log_of("desk");
  EXPECT_EQ(stop("serve"), 0) << log_of("serve");
  const CliRun best = cli("best matmul M=32 N=32 K=32 --threads 1 --db service.db --json");
  ASSERT_EQ(best.code, 0) << best.out << best.err;
  const nlohmann::json record = best.json()["record"];
  EXPECT_EQ(record["time_kind"], "measured");
  EXPECT_EQ(record["verified"], true);
  EXPECT_THAT(record["environment"]["board"].get<std::string>(), HasSubstr(name.machine));
}

}  // namespace
}  // namespace lw
