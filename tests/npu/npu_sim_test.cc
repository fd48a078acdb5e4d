// npu_sim as a user runs it.
#include <unistd.h>

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "src/npu/isa/text.h"
#include "src/npu/module.h"
#include "tests/npu/configs.h"
#include "tests/support/files.h"

namespace lw::npu {
namespace {

using testing::HasSubstr;

struct Ran {
  int code;
  std::string out, err;
};

class NpuSim : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "npu_sim_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    put("ok.s", "ld n0=64 n1=4 dstr1=1000 lstr1=64 signal=1\n"
                "mx.ldw k=32 n=32 wstr=32 wait=1\n"
                "mx.mm m=8 astr1=32 accstr=32 k=32 n=32 swap=1\nhalt\n");
    put("stuck.s", "st n0=64 wait=3\n");
    put("wrong.s", "halt\nld n9=3\n");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void put(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name) << text;
  }
  Ran run(const std::string& words) {
    const std::string command = "cd " + folder_ + " && " LW_BINARY_DIR "/npu_sim " + words +
                                " > out 2> err < /dev/null";
    const int status = std::system(command.c_str());
    return {WEXITSTATUS(status), slurp(folder_ + "/out"), slurp(folder_ + "/err")};
  }

  std::string folder_;
};

TEST_F(NpuSim, TimesAProgram) {
  const Ran text = run("run ok.s --config mid32");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("mid32  done after "));
  EXPECT_THAT(text.out, HasSubstr("bound "));
  const Ran json = run("run ok.s --json --timeline t.json");
  const auto document = nlohmann::json::parse(json.out);
  EXPECT_EQ(document["ending"], "done");
  EXPECT_EQ(document["bytes_read"], 256);
  EXPECT_GT(document["cycles"], 63 + 8 + 66);
  EXPECT_LE(document["efficiency"], 1);
  const auto timeline = nlohmann::json::parse(slurp(folder_ + "/t.json"));
  EXPECT_EQ(timeline["traceEvents"].size(), 4u + 3u + 1u);
}

TEST_F(NpuSim, AssemblesAndDisassembles) {
  EXPECT_EQ(run("assemble ok.s -o ok.npu").code, 0);
  EXPECT_EQ(run("disassemble ok.npu").out, slurp(folder_ + "/ok.s"));
  EXPECT_EQ(run("run ok.npu --json").out, run("run ok.s --json").out);
}

// The machine is the module's own, unless another is named.
TEST_F(NpuSim, TakesModules) {
  Module module;
  module.config = config_of("edge16");
  module.program = *parse_program("ld n0=64 signal=0\nst dram=0x40 n0=64 wait=0\nhalt\n", "");
  put("copy.npu", *make_module(module));
  put("copy.s", print_program(module.program));
  EXPECT_EQ(run("disassemble copy.npu").out, slurp(folder_ + "/copy.s"));
  EXPECT_EQ(run("run copy.npu --json").out, run("run copy.s --config edge16 --json").out);
  EXPECT_EQ(run("run copy.npu --config mid32 --json").out, run("run copy.s --json").out);
  EXPECT_NE(run("run copy.npu").out, run("run copy.s").out);
  put("cut.npu", make_module(module)->substr(0, 100));
  const Ran cut = run("run cut.npu");
  EXPECT_EQ(cut.code, 1);
  EXPECT_THAT(cut.err, HasSubstr("cut.npu: NPU module: cut short in its "));
}

TEST_F(NpuSim, HasItsConfigurationsWithIt) {
  EXPECT_THAT(run("configs").out, HasSubstr("\nmid32 "));
  EXPECT_THAT(run("configs --fields").out, HasSubstr("dram.tRCD "));
  put("mine.json", run("configs --show edge16").out);
  EXPECT_THAT(run("run ok.s --config mine.json").err, HasSubstr("k = 32: 1 to 16"));
}

TEST_F(NpuSim, SaysWhatIsWrongAndExitsSo) {
  const struct {
    const char* words;
    int code;
    const char* message;
  } rows[] = {
      {"", 1, "Run `npu_sim --help`"},
      {"run", 1, "PROGRAM is required"},
      {"walk ok.s", 1, "npu_sim: "},
      {"run ok.s --config mid23", 1, "did you mean 'mid32'?"},
      {"run wrong.s", 1, "wrong.s:2:4: ld has no field 'n9'; did you mean 'n0'?"},
      {"run none.s", 5, "cannot read none.s"},
      {"run ok.s --config none.json", 5, "cannot read none.json"},
      {"assemble ok.s -o no/such/folder", 5, "cannot write"},
  };
  for (const auto& row : rows) {
    const Ran ran = run(row.words);
    EXPECT_EQ(ran.code, row.code) << row.words << "\n" << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(row.message)) << row.words;
  }
  const Ran stuck = run("run stuck.s");
  EXPECT_EQ(stuck.code, 3);
  EXPECT_THAT(stuck.out, HasSubstr("ST: instruction 0 (st) waits for a token of semaphore 3"));
  EXPECT_EQ(run("--help").code, 0);
}

TEST_F(NpuSim, ComparesWithATableThatIsBrought) {
  put("nvdla.csv", "layer,C,K,R,S,P,Q,winograd,dram_kb,mac_cycles,dram_cycles\n"
                   "a,64,32,1,1,4,4,0,1,16,100\n");
  const Ran met = run("compare nvdla nvdla.csv");
  EXPECT_EQ(met.code, 0) << met.err;
  EXPECT_THAT(met.out, HasSubstr("beside NVDLA's sheet: cycles of multipliers equal in 1 of 1"));
  EXPECT_EQ(run("compare nvdla nvdla.csv --config edge16").code, 2);
  const Ran wrong = run("compare tpu nvdla.csv");
  EXPECT_EQ(wrong.code, 1);
  EXPECT_THAT(wrong.err, HasSubstr("npu_sim: nvdla.csv: no column 'm'"));
  EXPECT_EQ(run("compare tpu none.csv").code, 5);
  EXPECT_THAT(run("compare gpu nvdla.csv").err, HasSubstr("{tpu,nvdla}"));
}

TEST_F(NpuSim, LooksForRaces) {
  EXPECT_EQ(run("run ok.s --check").code, 0);
  put("race.s", "ld n0=64\nst dram=4096 n0=64\n");
  EXPECT_EQ(run("run race.s").code, 0);
  const Ran ran = run("run race.s --check");
  EXPECT_EQ(ran.code, 4);
  EXPECT_THAT(ran.err, HasSubstr("npu_sim: race: instruction 1 (st dram=0x1000 n0=64) reads SPM"));
}

}  // namespace
}  // namespace lw::npu
