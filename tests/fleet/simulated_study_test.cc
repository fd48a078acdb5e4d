// A fleet of two kinds: an agent of simulated NPUs beside one of CPUs' stand-ins, and one daemon.
// What a study finds there is what a search here finds: times are computed.
#include "gmock/gmock.h"
#include "tests/fleet/fleet_fixture.h"

namespace lw {
namespace {

using ::testing::HasSubstr;

constexpr char kProduct[] =
    "op mm(M = 64, N = 96, K = 80) {\n  in A: i8[M, K]\n  in B: i8[K, N] const\n"
    "  out C[i: M, j: N] = sum[k: K](A[i, k] * B[k, j])\n}\n";

class SimulatedStudyTest : public DaemonTest {};

TEST_F(SimulatedStudyTest, TwoKindsOfDevicesServeTheirOwnStudies) {
  std::string larger = kProduct;
  larger.replace(larger.find("M = 64, N = 96, K = 80"), 22, "M = 256, N = 192, K = 320");
  std::ofstream(path("mm.te")) << larger;
  const std::string address = serve();
  ASSERT_FALSE(address.empty()) << log_of("serve");
  launch("boards", concat("agent --server ", address, " --name boards --isolation none",
                          " --device npu:one --device npu:two",
                          " --device null:host,target=x86_avx2 --state ", path("state")));
  ASSERT_TRUE(until_logged("boards", "connected")) << log_of("boards");
  const std::string server = concat(" --server ", address);
  const CliRun npu = cli("submit mm.te --target npu_mid32 --trials 80 --seed 3 --watch" + server);
  ASSERT_EQ(npu.code, 0) << npu.out << npu.err << log_of("boards");
  EXPECT_THAT(npu.out, HasSubstr("(simulated)"));
  const CliRun cpu =
      cli("submit matmul M=32 N=32 K=32 --target x86_avx2 --threads 1 --trials 8 --watch" + server);
  ASSERT_EQ(cpu.code, 0) << cpu.out << cpu.err << log_of("boards");
  // No device for it: told, and waits.
  const CliRun edge = cli("submit mm.te --target npu_edge16 --trials 4" + server);
  EXPECT_EQ(edge.code, 0) << edge.err;
  EXPECT_THAT(cli("studies" + server).out, HasSubstr("npu_edge16"));
  EXPECT_EQ(stop("boards"), 0) << log_of("boards");
  EXPECT_EQ(stop("serve"), 0) << log_of("serve");

  const auto best = [&](const std::string& database) {
    return cli("best mm.te --target npu_mid32 --json --db " + database).json()["record"];
  };
  const nlohmann::json record = best("service.db");
  EXPECT_EQ(record["time_kind"], "simulated");
  EXPECT_EQ(record["verified"], true);
  EXPECT_EQ(record["environment"]["simulated"], true);
  EXPECT_GT(record["environment"]["counters"]["cycles"], 0);
  // Results are taken in the order in which they were asked for, here as there.
  ASSERT_EQ(
      cli("tune mm.te --target npu_mid32 --trials 80 --seed 3 --seconds 600 --db local.db").code, 0);
  EXPECT_EQ(best("local.db")["time_us"], record["time_us"]);
  EXPECT_EQ(best("local.db")["trace"], record["trace"]);
}

// A simulator behind the protocol of docs/exec.md, for a machine of the user's own: the study finds
// what a search here finds, and says whose times they are.
TEST_F(SimulatedStudyTest, AProgramIsADevice) {
  std::ofstream(path("mm.te")) << kProduct;
  std::string machine = slurp(LW_SOURCE_DIR "/src/npu/configs/edge16.json");
  machine.replace(machine.find("edge16"), 6, "mine");
  std::ofstream(path("mine.json")) << machine;
  std::ofstream(path("simulator")) << "#!/bin/sh\nexec " LW_BINARY_DIR "/npu_sim exec\n";
  std::filesystem::permissions(path("simulator"), std::filesystem::perms::owner_all);
  const std::string address = serve();
  ASSERT_FALSE(address.empty()) << log_of("serve");
  launch("board", concat("agent --server ", address, " --name board --isolation none",
                         " --device exec:./simulator,name=asked --target ./mine.json --state ",
                         path("state")));
  ASSERT_TRUE(until_logged("board", "connected")) << log_of("board");
  const CliRun study = cli("submit mm.te --target npu_mine --trials 24 --seed 3 --watch"
                           " --server " + address);
  ASSERT_EQ(study.code, 0) << study.out << study.err << log_of("board");
  EXPECT_EQ(stop("board"), 0) << log_of("board");
  EXPECT_EQ(stop("serve"), 0) << log_of("serve");
  const auto best = [&](const std::string& database) {
    return cli("best mm.te --target ./mine.json --json --db " + database).json()["record"];
  };
  const nlohmann::json record = best("service.db");
  EXPECT_EQ(record["time_kind"], "simulated");
  EXPECT_EQ(record["verified"], true);
  EXPECT_THAT(record["environment"]["simulator"].get<std::string>(), HasSubstr("exec npu_sim "));
  ASSERT_EQ(cli("tune mm.te --target ./mine.json --trials 24 --seed 3 --db local.db").code, 0);
  EXPECT_EQ(best("local.db")["time_us"], record["time_us"]);
}

}  // namespace
}  // namespace lw
