// Schedules for others on the command line: the nest as JSON, and `export --emit mlir`.
#include <filesystem>
#include <string>

#include "tests/support/cli_fixture.h"

namespace lw {
namespace {

class ExportMlirTest : public CliTest {};

TEST_F(ExportMlirTest, ShowsTheNestAsFacts) {
  const nlohmann::json shown =
      cli(std::string("show ") + kTiny + " --stage nest --json -q").json();
  EXPECT_EQ(shown["stage"], "nest");
  EXPECT_EQ(shown["nest"]["version"], 1);
  EXPECT_EQ(shown["nest"]["program"], "matmul");
  EXPECT_FALSE(shown["nest"]["stages"].empty());
  EXPECT_TRUE(contains(shown["text"].get<std::string>(), "k: 16 sum"));
  const nlohmann::json kernel =
      cli(std::string("show ") + kTiny + " --stage kernel --json -q").json();
  EXPECT_FALSE(kernel.contains("nest"));
}

TEST_F(ExportMlirTest, WritesAFolderAndSaysWhatItKeeps) {
  const CliRun run = cli(std::string("export ") + kTiny + " --emit mlir -o out -q --json");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.json()["files"].size(), 5);
  for (const char* name : {"report.json", "payload.mlir", "schedule.mlir", "prelude.mlir",
                           "lower.sh"}) {
    EXPECT_TRUE(std::filesystem::exists(path(std::string("out/") + name))) << name;
  }
  const nlohmann::json report = nlohmann::json::parse(slurp(path("out/report.json")));
  EXPECT_EQ(report["schema"], 1);
  EXPECT_EQ(report["mlir"], "19");
  EXPECT_EQ(report["coverage"]["refused"], 0);
  EXPECT_FALSE(report["steps"].empty());
}

TEST_F(ExportMlirTest, EndsWhereNotAllCanBeKept) {
  const CliRun refused = cli(std::string("export ") + kTiny +
                             " --target opencl_gpu --emit mlir -o gpu -q");
  EXPECT_EQ(refused.code, 2);
  EXPECT_TRUE(contains(refused.err, "gpu/report.json")) << refused.err;
  EXPECT_TRUE(std::filesystem::exists(path("gpu/report.json")));
  EXPECT_FALSE(std::filesystem::exists(path("gpu/schedule.mlir")));
  // Two threads share its loops, which the script runs on one.
  const CliRun exact = cli("export matmul M=512 N=512 K=512 --threads 2 --target x86_avx512 "
                           "--emit mlir --exact -o exact -q");
  EXPECT_EQ(exact.code, 2);
  EXPECT_TRUE(contains(exact.err, "--exact")) << exact.err;
  EXPECT_FALSE(std::filesystem::exists(path("exact/schedule.mlir")));
}

TEST_F(ExportMlirTest, RefusesOptionsOfTheOther) {
  EXPECT_EQ(cli(std::string("export ") + kTiny + " --exact -o out -q").code, 1);
  EXPECT_EQ(cli(std::string("export ") + kTiny + " --emit mlir --locked b -o out -q").code, 1);
}

}  // namespace
}  // namespace lw
