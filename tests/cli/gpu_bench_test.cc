// bench/gpu/run, which measures on a GPU what nobody has yet: with a driver that interprets PTX
// (tests/support/drivers/fake_cuda.cc), so that the first GPU does not find it broken. The last step,
// beside PyTorch, is left out.
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "tests/support/cli_fixture.h"

namespace lw {
namespace {

class GpuBenchTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    setenv("LOOPWRIGHT_CUDA", LW_BINARY_DIR "/libfake_cuda.so", 1);
    setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
  }
  void TearDown() override {
    unsetenv("LOOPWRIGHT_CUDA");
    CliTest::TearDown();
  }
  CliRun bench(const std::string& seconds) const {
    return program({"/usr/bin/python3", LW_SOURCE_DIR "/bench/gpu/run", "gpu", "--rows", "rows.txt",
                    "--trials", "2", "--each", "30", "--seconds", seconds, "--no-peers",
                    "--loopwright", LW_BINARY_DIR "/loopwright"});
  }
  std::vector<nlohmann::json> log() const {
    std::vector<nlohmann::json> lines;
    for (const std::string& line :
         std::vector<std::string>(absl::StrSplit(slurp(path("gpu/tuned.jsonl")), '\n'))) {
      if (!line.empty()) lines.push_back(nlohmann::json::parse(line));
    }
    return lines;
  }
  std::vector<std::string> stages(const std::string& words) const {
    std::vector<std::string> found;
    for (const nlohmann::json& line : log()) {
      if (line["words"] == words) found.push_back(line["stage"]);
    }
    return found;
  }
};

TEST_F(GpuBenchTest, TunesAndExportsInPieces) {
  const std::string product = "gemm M=16 N=16 K=32 T=bf16", rows = "layer_norm M=4 N=40";
  write("rows.txt", "# two that are right and one that is not\n" + product + "\nnothing M=4\n" +
                        rows + "\n");
  // Without seconds nothing is begun, and the exit status says that there is more.
  const CliRun none = bench("1");
  EXPECT_EQ(none.code, 3) << none.err;
  EXPECT_THAT(none.out, testing::HasSubstr("3 rows are left"));
  const CliRun all = bench("600");
  EXPECT_EQ(all.code, 0) << all.out << all.err;
  for (const std::string& words : {product, rows}) {
    EXPECT_THAT(stages(words), testing::ElementsAre("begun", "tuned")) << all.out;
  }
  EXPECT_THAT(stages("nothing M=4"), testing::ElementsAre("begun", "failed"));
  for (const nlohmann::json& line : log()) {
    if (line["stage"] == "failed") {
      EXPECT_THAT(line["why"].get<std::string>(), testing::HasSubstr("nothing"));
    }
    if (line["stage"] != "tuned") continue;
    EXPECT_EQ(line["found"]["best"]["verified"], true) << line;
    EXPECT_GT(line["found"]["zero_trial"]["time_us"], 0) << line;
    EXPECT_EQ(line["found"]["estimated"], false) << line;
  }
  for (const char* file : {"gemm_M16_N16_K32_Tbf16/kernel.so", "gemm_M16_N16_K32_Tbf16/gemm.ptx",
                           "layer_norm_M4_N40/kernel.so"}) {
    EXPECT_TRUE(std::filesystem::exists(path(std::string("gpu/exports/") + file))) << file;
  }
  // What is done is not done again.
  const size_t lines = log().size();
  EXPECT_EQ(bench("600").code, 0);
  EXPECT_EQ(log().size(), lines);
}

// What rows.py asks of ours.te is there, where it names an operator in one piece: (f"linear M=...
TEST_F(GpuBenchTest, RowsNameOperatorsThatThereAre) {
  const std::string rows = slurp(LW_SOURCE_DIR "/bench/gpu/rows.py"),
                    ops = slurp(LW_SOURCE_DIR "/bench/gpu/ours.te"), start = "(f\"";
  int named = 0;
  for (size_t at = rows.find(start); at != rows.npos; at = rows.find(start, at + 1)) {
    const size_t begin = at + start.size(),
                 end = rows.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_", begin);
    if (end == begin || rows[end] != ' ') continue;
    const std::string op = rows.substr(begin, end - begin);
    EXPECT_NE(ops.find("op " + op + "("), ops.npos) << op;
    ++named;
  }
  EXPECT_GE(named, 5);
}

}  // namespace
}  // namespace lw
