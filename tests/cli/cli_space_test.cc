// The command line of programs that have no schedule: what it says, and its exit code.
#include <gmock/gmock.h>

#include "tests/support/cli_fixture.h"

namespace lw {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

// Two stages read all of P, which is larger than any workspace.
constexpr char kTooLarge[] =
    "op large(N = 40000, K = 2) {\n  in A: f32[N, K]\n  in B: f32[K, N]\n"
    "  P[i: N, j: N] = sum[k: K](A[i, k] * B[k, j])\n  a[i: N] = sum[j: N](P[i, j])\n"
    "  out C[i: N] = sum[j: N](P[j, i] * a[j])\n}\n";

TEST_F(CliTest, SpaceSaysWhyItsDrawsCannotBeLowered) {
  write("large.te", kTooLarge);
  const std::string words = "space large.te --threads 1 --samples 0";
  EXPECT_THAT(cli(words).out, Not(HasSubstr("workspace")));
  const CliRun why = cli(words + " --why");
  EXPECT_EQ(why.code, 0) << why.err;
  EXPECT_THAT(why.out, HasSubstr("50 of 50 draws: infeasible: the workspace is too large"));
  const json space = cli(words + " --why --json").json();
  for (const json& sketch : space["sketches"]) {
    int refused = 0;
    for (const auto& [reason, count] : sketch["reasons"].items()) refused += count.get<int>();
    EXPECT_EQ(refused, sketch["draws"]) << sketch;
  }
}

TEST_F(CliTest, AProgramThatNoScheduleFitsIsNotFoundWithTheReason) {
  write("large.te", kTooLarge);
  const CliRun run = cli("tune large.te --threads 1 --trials 2 -q");
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.err, HasSubstr("no schedule of the program can be lowered"));
  EXPECT_THAT(run.err, HasSubstr("the workspace is too large"));
}

TEST_F(CliTest, ASuiteGoesOnPastAWorkloadThatHasNoSchedule) {
  write("large.te", kTooLarge);
  write("suite.json", R"({"workloads": [{"name": "one", "words": "matmul M=24 N=40 K=16"},
    {"name": "none", "words": "large.te"}, {"name": "two", "words": "row_sum M=16 N=24"}]})");
  const std::string words = "tune -q --trials 2 --seconds 20 --threads 1 --suite suite.json";
  const CliRun run = cli(words + " --json");
  EXPECT_EQ(run.code, 2) << run.err;
  const json result = run.json();
  ASSERT_EQ(result["workloads"].size(), 3u) << result;
  for (const int i : {0, 2}) EXPECT_EQ(result["workloads"][i]["best"]["verified"], true) << result;
  EXPECT_TRUE(result["workloads"][1]["best"].is_null());
  ASSERT_EQ(result["failed"].size(), 1u) << result["failed"];
  EXPECT_EQ(result["failed"][0]["name"], "none");
  EXPECT_EQ(result["failed"][0]["exit"], 2);
  EXPECT_THAT(result["failed"][0]["why"].get<std::string>(),
              HasSubstr("no schedule of the program can be lowered"));

  const CliRun text = cli(words);
  EXPECT_EQ(text.code, 2) << text.err;
  EXPECT_THAT(text.out, HasSubstr("1 of 3 workloads failed\n  none: no schedule of the program"));
}

}  // namespace
}  // namespace lw
