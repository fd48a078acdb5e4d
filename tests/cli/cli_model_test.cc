// `model`, and what `tune --model` makes of what it is given.
#include "src/base/message.h"
#include "tests/support/cli_fixture.h"
#include "tests/support/store_fixture.h"

namespace lw {
namespace {

using nlohmann::json;

TEST_F(CliTest, ModelLearnsAndIsEvaluatedOnUnseenWorkloads) {
  EXPECT_EQ(cli("model eval").code, 2);
  for (const char* shape : {"M=24 N=40 K=16", "M=64 N=32 K=48", "M=16 N=96 K=64"}) {
    ASSERT_EQ(cli(std::string("tune -q --trials 10 --seconds 20 --threads 1 matmul ") + shape).code,
              0);
  }
  const json eval = cli("model eval --json").json();
  for (const char* field : {"pairwise", "peak_at_1", "peak_at_5", "random_peak_at_1", "draft"}) {
    EXPECT_TRUE(eval.contains(field)) << field;
  }
  EXPECT_EQ(eval["groups"], 3);
  ASSERT_EQ(cli("model train -o m.model").code, 0);
  EXPECT_EQ(cli(std::string("tune -q --model m.model --trials 12 --seconds 20 ") + kTiny).code, 0);
}

// Times that nobody measured are shown as such, teach nothing, and are no trials of a search that
// measures.
TEST_F(CliTest, EstimatesAreNoMeasurements) {
  const auto tune = [&] {
    return cli(std::string("tune --json --trials 6 --seconds 20 ") + kTiny).json();
  };
  EXPECT_EQ(tune()["time_kind"], "measured");
  const json measured = cli(std::string("best --json ") + kTiny).json()["record"];
  EXPECT_EQ(measured["time_kind"], "measured");
  sql(path("loopwright.db"), "UPDATE measurements SET time_kind = 30, time_us = time_us / 100;"
                             "UPDATE candidates SET time_kind = 30, median_us = median_us / 100");
  EXPECT_EQ(cli("model train -o m.model").code, 2);
  EXPECT_EQ(cli(std::string("best --json ") + kTiny).json()["record"]["time_kind"], "estimated");
  for (const std::string& command : {std::string("best ") + kTiny, std::string("db ls"),
                                    "db show " + measured["canonical_sha256"].get<std::string>()}) {
    EXPECT_TRUE(contains(cli(command).out, "(estimated)")) << command;
  }
  const json again = tune();
  EXPECT_EQ(again["trials"], 6);
  EXPECT_EQ(again["time_kind"], "measured");
  EXPECT_EQ(cli(std::string("best --json ") + kTiny).json()["record"]["time_kind"], "measured");
}

TEST_F(CliTest, SimulatedTimesSaySoWhereverTheyAreShown) {
  ASSERT_EQ(cli(std::string("tune -q --trials 6 --seconds 20 ") + kTiny).code, 0);
  sql(path("loopwright.db"), "UPDATE measurements SET time_kind = 20;"
                             "UPDATE candidates SET time_kind = 20");
  const json best = cli(std::string("best --json ") + kTiny).json();
  EXPECT_EQ(best["record"]["time_kind"], "simulated");
  EXPECT_EQ(best["record"]["estimated"], false);
  for (const std::string& command :
       {std::string("best ") + kTiny, std::string("db ls"),
        "db show " + best["record"]["canonical_sha256"].get<std::string>()}) {
    EXPECT_TRUE(contains(cli(command).out, "(simulated)")) << command;
  }
  EXPECT_FALSE(contains(cli(std::string("best ") + kTiny).out, "emulation"));
  EXPECT_EQ(cli("db ls --json").json()[0]["time_kind"], "simulated");
  ASSERT_EQ(cli("report --no-machine -o report.html").code, 0);
  EXPECT_TRUE(contains(slurp(path("report.html")), "<small>simulated</small>"));
  ASSERT_EQ(cli(std::string("export --unverified -o out ") + kTiny).code, 0);
  bool is_exported = false;
  for (const auto& file : std::filesystem::directory_iterator(path("out"))) {
    is_exported |= contains(slurp(file.path()), "\"time_kind\": \"simulated\"");
  }
  EXPECT_TRUE(is_exported);
  const std::string lines = cli("db export").out;
  EXPECT_TRUE(contains(lines, "TIME_KIND_SIMULATED"));
  ASSERT_EQ(cli("model train -o m.model").code, 2) << "no machine gave them";
}

// NPUs' times are computed: a data set of several targets takes seconds, and says how well a model
// ranks on one that it has not seen.
TEST_F(CliTest, ModelLearnsOfNpusAndIsEvaluatedOnUnseenOnes) {
  ASSERT_EQ(cli("model gather -q --targets npu_mid32,npu_edge16 --tasks 6 --uniform 4 --searched 2 "
                "-o npu.lwd").code, 0);
  const json eval = cli("model eval --data npu.lwd --held-out target --json").json();
  EXPECT_EQ(eval["held_out_by"], "target");
  EXPECT_TRUE(eval["classes"].contains("npu_mid32"));
  EXPECT_TRUE(eval["classes"].contains("npu_edge16"));
  EXPECT_EQ(cli("model eval --data npu.lwd --json").json()["held_out_by"], "class");
  ASSERT_EQ(cli("model train --data npu.lwd --family npu -o npu.model").code, 0);
  const CliRun run = cli("tune -q --target npu_mid32 --model npu.model --trials 4 matmul M=64 N=64 "
                         "K=64 T=bf16");
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_FALSE(contains(run.err, "model")) << run.err;
  EXPECT_NE(cli("model gather --targets npu_none --tasks 1").code, 0);
}

// What a model file is of no use for costs its advantage, not the run.
TEST_F(CliTest, AModelOfNoUseIsRefusedWithTheReasonAndTheDraftUsed) {
  std::ofstream(path("other.model")) << "loopwright model 2\n12ab\nx86_64\n\n0\n";
  std::ofstream(path("cut.model")) << "loopwright model 2\n";
  for (const auto& [file, why] : {std::pair("other.model", "trained on other features"),
                                  std::pair("cut.model", "trained on other features"),
                                  std::pair("none.model", "cannot read")}) {
    const auto run = cli(std::string("tune --trials 0 --db ") + file + ".db --model " + file + " " +
                         kTiny);
    EXPECT_EQ(run.code, 0);
    EXPECT_TRUE(contains(run.err, why)) << run.err;
    EXPECT_TRUE(contains(run.err, "the draft model is used")) << run.err;
  }
}

// Without --model a search starts from the draft; the shipped model is used where it is asked for.
TEST_F(CliTest, TheDraftRanksUnlessAnotherModelIsNamed) {
  EXPECT_TRUE(contains(cli("tune --help").out, "=draft"));
  const auto untuned = [&](const std::string& model) {
    const CliRun run = cli(concat("tune --json --threads 1 --trials 0 --db zero", model.size(),
                                  ".db ", model, " matmul M=67 N=130 K=77"));
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_FALSE(contains(run.err, "model")) << run.err;
    return run.json()["best"]["trace"].get<std::string>();
  };
  const std::string draft = untuned("--model draft");
  EXPECT_EQ(untuned(""), draft);
  EXPECT_EQ(untuned("--model none"), draft);  // nothing is learned before the first answer
  const CliRun shipped = cli(concat("tune --model shipped --trials 0 ", kTiny));
  EXPECT_EQ(shipped.code, 0);
  EXPECT_FALSE(contains(shipped.err, "model")) << shipped.err;
}

}  // namespace
}  // namespace lw
