// One machine, whichever of its processors a process may use: what was tuned is found exactly by
// every command under a mask of processors, and so is what an agent with a part of the machine has
// tuned.
#include "src/base/parallel_pool.h"
#include "tests/support/affinity.h"
#include "tests/support/cli_fixture.h"
#include "tests/support/service_processes.h"

namespace lw {
namespace {

constexpr char kSmall[] = "matmul M=16 N=24 K=16 --threads 1";

class IdentityTest : public CliTest {
 protected:
  std::string outcome(const std::string& words) const {
    const CliRun run = cli(words + " --json");
    EXPECT_EQ(run.code, 0) << words << "\n" << run.out << run.err;
    const nlohmann::json json = run.json();
    if (json.contains("ours")) return json["ours"]["outcome"];
    if (json.contains("results")) return json["results"][0]["outcome"];
    return json.value("outcome", "");
  }
  std::string key(const std::string& words) const {
    const nlohmann::json json = cli(words + " --json").json();
    return json["record"]["digest"];
  }
};

TEST_F(IdentityTest, WhatWasTunedIsExactOnEachProcessor) {
  const std::string tuned = kSmall;
  ASSERT_EQ(cli("tune --trials 4 --seconds 20 " + tuned).code, 0);
  const std::string digest = key("best " + tuned);
  ASSERT_EQ(digest.size(), 64u);
  for (const int cpu : {allowed_cpus().front(), allowed_cpus().back()}) {
    const OnOneProcessor here(cpu);
    EXPECT_EQ(key("best " + tuned), digest);
    EXPECT_EQ(outcome("best --frozen " + tuned), "exact");
    EXPECT_EQ(outcome("bench --frozen --seconds 0.05 " + tuned), "exact");
    // One processor's default is one thread: the same key.
    EXPECT_EQ(outcome("best --frozen matmul M=16 N=24 K=16"), "exact");
    const CliRun exported = cli("export --frozen -o out " + tuned);
    EXPECT_EQ(exported.code, 0) << exported.err;
    EXPECT_EQ(nlohmann::json::parse(slurp(path("out/matmul.json")))["outcome"], "exact");
  }
  // And the other way round: what is tuned on one processor is the machine's.
  const std::string more = "softmax M=8 N=16 --threads 1";
  {
    const OnOneProcessor here(allowed_cpus().back());
    ASSERT_EQ(cli("tune --trials 4 --seconds 20 " + more).code, 0);
  }
  EXPECT_EQ(outcome("best --frozen " + more), "exact");
}

TEST_F(IdentityTest, AnAgentWithOneProcessorTunesForTheMachine) {
  Processes processes(folder_);
  const std::string address = loopback(free_port());
  ASSERT_TRUE(processes.start_daemon("daemon", daemon_words(address, path("service.db"))));
  const std::string device = "cpu@" + std::to_string(allowed_cpus().back()) + ",name=part";
  processes.start("agent", {LW_BINARY_DIR "/loopwright", "agent", "--server", address, "--state",
                            path("state"), "--device", device});
  const std::string server = " --server " + address;
  const CliRun study = cli(std::string("submit --trials 4 --watch ") + kSmall + server);
  ASSERT_EQ(study.code, 0) << study.out << study.err << read_text(processes.log("agent"));
  EXPECT_EQ(outcome(std::string("lookup --frozen ") + kSmall + server), "LOOKUP_OUTCOME_EXACT");
  const OnOneProcessor here(allowed_cpus().front());
  EXPECT_EQ(outcome(std::string("lookup --frozen ") + kSmall + server), "LOOKUP_OUTCOME_EXACT");
  EXPECT_EQ(processes.end("agent", SIGTERM), 0);
  EXPECT_EQ(processes.end("daemon", SIGTERM), 0);
}

}  // namespace
}  // namespace lw
