// Machines compared at their tuned best, from the command line.
#include "tests/support/cli_fixture.h"

namespace lw {
namespace {

using nlohmann::json;

constexpr char kExplored[] =
    "op mm(M = 64, N = 96, K = 80) {\n  in A: i8[M, K]\n  in B: i8[K, N] const\n"
    "  out C[i: M, j: N] = sum[k: K](A[i, k] * B[k, j])\n}\n";

bool dominates(const json& a, const json& b) {
  const double time_a = a["time_us"], time_b = b["time_us"];
  bool better = time_a < time_b, as_good = time_a <= time_b;
  for (const auto& [name, value] : a["area"].items()) {
    better = better || value.get<double>() < b["area"][name].get<double>();
    as_good = as_good && value.get<double>() <= b["area"][name].get<double>();
  }
  return better && as_good;
}

TEST_F(CliTest, MachinesAreComparedAtTheirTunedBest) {
  write("mm.te", kExplored);
  const CliRun run =
      cli("explore mm.te --target npu_mid32 --over spm.bytes=16K,64K "
          "--over mx.R+mx.C+align.k+align.n+spm.align+acc.align=16,32 --trials 6 --seed 2 --json "
          "-o page.html");
  ASSERT_EQ(run.code, 0) << run.err;
  const json machines = run.json()["machines"];
  ASSERT_EQ(machines.size(), 4u);
  EXPECT_EQ(machines[0]["settings"]["spm.bytes"], "16384");
  EXPECT_EQ(machines[0]["settings"]["align.n"], "16");
  EXPECT_EQ(machines[0]["area"]["MACs"], 256);
  EXPECT_EQ(machines[3]["area"]["SRAM bytes"], 65536 + 131072);
  for (const json& machine : machines) {
    EXPECT_GT(machine["time_us"], 0) << machine;
    const bool beaten = std::any_of(machines.begin(), machines.end(), [&](const json& other) {
      return dominates(other, machine);
    });
    EXPECT_EQ(machine["pareto_front"], !beaten) << machine;
  }
  const std::string page = slurp(path("page.html"));
  EXPECT_TRUE(contains(page, "Time against MACs")) << page;
  EXPECT_TRUE(contains(page, "Pareto front")) << page;
  // Each is a machine of its own, whose schedules are kept.
  const CliRun again =
      cli("explore mm.te --target npu_mid32 --over spm.bytes=16K,64K "
          "--over mx.R+mx.C+align.k+align.n+spm.align+acc.align=16,32 --trials 6 --seed 2 --json "
          "-o page.html");
  for (size_t i = 0; i < machines.size(); ++i) {
    EXPECT_EQ(again.json()["machines"][i]["time_us"], machines[i]["time_us"]);
  }
}

TEST_F(CliTest, AMachineThatCannotBeLeavesTheOthers) {
  write("mm.te", kExplored);
  const CliRun run =
      cli("explore mm.te --over mx.R+mx.C=16,32 --trials 2 --json -o page.html");
  EXPECT_EQ(run.code, 3) << run.err;
  const json machines = run.json()["machines"];
  ASSERT_EQ(machines.size(), 2u);
  EXPECT_GT(machines[0]["time_us"], 0);
  EXPECT_TRUE(machines[1]["time_us"].is_null());
  EXPECT_TRUE(contains(machines[1]["why"], "align.k: at most mx.R (16), not 32")) << machines[1];
}

TEST_F(CliTest, WhatCannotBeExploredIsRefused) {
  write("mm.te", kExplored);
  const struct {
    const char* words;
    const char* says;
  } cases[] = {
      {"mm.te --over spm.size=1K,2K", "has no field spm.size to vary"},
      {"mm.te --over spm.bytes=many", "spm.bytes cannot be 'many'"},
      {"mm.te --over spm.bytes", "--over takes FIELD=VALUE,VALUE,..."},
      {"mm.te --over name=a,b", "has no field name to vary"},
      {"mm.te --target x86_avx2 --over ghz=1,2", "is no machine of which there are configurations"},
      {"--over spm.bytes=64K", "no workload is named"},
      {"mm.te", "--over is required"},
  };
  for (const auto& [words, says] : cases) {
    const CliRun run = cli(std::string("explore ") + words + " --trials 1 -o page.html");
    EXPECT_EQ(run.code, 1) << words;
    EXPECT_TRUE(contains(run.err, says)) << run.err;
  }
  EXPECT_FALSE(std::filesystem::exists(path("page.html")));
}

}  // namespace
}  // namespace lw
