// Many workloads in one call, of a database, and of what is at hand beside a server that may be away.
#include "gmock/gmock.h"
#include "tests/support/cli_fixture.h"
#include "tests/support/service_processes.h"

namespace lw {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class AtHandTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    const CliRun tuned = cli(std::string("tune -q --trials 4 --seconds 20 --db k.db ") + kTiny);
    ASSERT_EQ(tuned.code, 0) << tuned.err;
    write("suite.json", json{{"workloads", {
        {{"name", "tuned"}, {"words", {"matmul", "M=24", "N=40", "K=16"}}},
        {{"name", "other"}, {"words", {"op f(N = 8) {\n  in X: f32[N]\n  out Y[i: N] = X[i]\n}\n",
                                       "N=9"}}}}}}.dump());
  }
  json results(const std::string& words, int code = 0) const {
    const CliRun run = cli(words + " --threads 1 --json");
    EXPECT_EQ(run.code, code) << words << "\n" << run.out << run.err;
    return run.json()["results"];
  }
};

TEST_F(AtHandTest, OneCallAnswersASuiteFromADatabaseOrASnapshot) {
  ASSERT_EQ(cli("db snapshot -o k.lws --db k.db").code, 0);
  for (const char* from : {"--db k.db", "--snapshot k.lws"}) {
    const std::string best = std::string("best --suite suite.json ") + from;
    const json found = results(best);
    ASSERT_EQ(found.size(), 2u);
    EXPECT_EQ(found[0]["workload"], "tuned");
    EXPECT_EQ(found[0]["outcome"], "exact");
    EXPECT_GT(found[0]["record"]["time_us"], 0);
    EXPECT_EQ(found[1]["outcome"], "default");
    EXPECT_NE(found[1]["trace"], "");
    EXPECT_EQ(results(best + " tuned --frozen").size(), 1u);
    const CliRun missed = cli(best + " --frozen --threads 1 --json");
    EXPECT_EQ(missed.code, 2);
    EXPECT_THAT(missed.err, HasSubstr("1 of 2 workloads are not tuned in k."));
    EXPECT_EQ(missed.json()["workloads"].size(), 1u);       // what to tune
    EXPECT_THAT(missed.json()["workloads"][0]["program"], HasSubstr("f32[9]"));
  }
  write("suite.json", R"({"workloads": [{"name": "odd", "words": ["relu", 7]}]})");
  const CliRun odd = cli("best --suite suite.json --db k.db");
  EXPECT_EQ(odd.code, 1);
  EXPECT_THAT(odd.err, HasSubstr("odd: one of its words is no text"));
  EXPECT_EQ(cli("best --db k.db").code, 1);                 // nothing was asked for
}

TEST_F(AtHandTest, AServerThatIsAwayIsDoneWithout) {
  Processes processes(folder_);
  const std::string address = loopback(free_port());
  ASSERT_TRUE(processes.start_daemon("daemon", daemon_words(address, path("k.db"))));
  const std::string lookup = "lookup --suite suite.json --worst default --server " + address;
  const std::string kept = lookup + " --cache-folder kept --deadline-ms 20000";
  const json asked = results(kept);
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_EQ(asked[0]["outcome"], "exact");
  EXPECT_EQ(asked[0]["origin"], "server");
  EXPECT_EQ(asked[1]["outcome"], "default");
  EXPECT_EQ(asked[1]["origin"], "");
  ASSERT_EQ(processes.end("daemon", SIGTERM), 0);

  EXPECT_EQ(cli(lookup).code, 5) << "nothing else was named";
  const CliRun away = cli("lookup relu N=8 --server " + address + " --cache-folder kept --threads 1");
  EXPECT_EQ(away.code, 2);
  EXPECT_THAT(away.err, HasSubstr("no answer from " + address + " within 50 ms"));
  const json known = results(kept);
  EXPECT_EQ(known[0]["origin"], "cache");
  EXPECT_EQ(known[0]["trace"], asked[0]["trace"]);
  EXPECT_EQ(known[1]["outcome"], "default");

  const std::string one = " --frozen --threads 1 --server " + address + " --cache-folder kept ";
  EXPECT_EQ(cli(std::string("lookup matmul M=24 N=40 K=16") + one).code, 0);
  EXPECT_EQ(cli("lookup matmul M=25 N=40 K=16" + one).code, 5) << "the server may have it";
  ASSERT_EQ(cli("db snapshot -o k.lws --db k.db").code, 0);
  const json read = results(lookup + " --snapshot k.lws");
  EXPECT_EQ(read[0]["origin"], "snapshot");
  EXPECT_EQ(cli(lookup + " --snapshot none.lws").code, 5);
  EXPECT_EQ(cli(lookup + " --snapshot k.lws --cache cold").code, 1);
}

}  // namespace
}  // namespace lw
