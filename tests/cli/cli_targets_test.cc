// The list of targets, and targets that a user brings.
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "src/npu/config.h"
#include "tests/support/cli_fixture.h"

namespace lw {
namespace {

using nlohmann::json;

TEST_F(CliTest, TargetsOfAnotherFamilyAreListedAndShown) {
  const std::string list = cli("targets").out;
  EXPECT_TRUE(contains(list, "array")) << list;
  EXPECT_TRUE(contains(list, "32x32")) << list;
  const json npu = cli("targets npu_mid32 --json").json();
  EXPECT_EQ(npu["family"], "npu");
  EXPECT_EQ(npu["mx.R"], 32);
  for (const json& entry : cli("targets --json").json()) {
    if (entry["family"] != "npu") continue;
    EXPECT_EQ(entry["runs_here"], false);
    EXPECT_EQ(entry["emulated_here"], false);
  }
}

// Before a schedule is drawn, not once for each.
TEST_F(CliTest, ProgramsOfTypesThatADeviceHasNotAreRefused) {
  write("wide.te", "op wide() {\n  in X: f64[64]\n  out Y[i: 64] = X[i] + 1\n}\n");
  for (const char* command : {"tune --trials 4 ", "show ", "space "}) {
    const CliRun run = cli(std::string(command) + "wide.te --target opencl_gpu");
    EXPECT_EQ(run.code, 1) << command;
    EXPECT_TRUE(contains(run.err, "X computes in f64, in which target 'opencl_gpu' does not"))
        << run.err;
  }
  EXPECT_EQ(cli("show wide.te --target opencl_cpu").code, 0);
}

TEST_F(CliTest, TargetsListWhatDriversHave) {
  setenv("LOOPWRIGHT_OPENCL", LW_BINARY_DIR "/libfake_opencl.so", 1);
  const auto listed = [&](const std::string& words) {
    setenv("LW_FAKE_OPENCL", words.c_str(), 1);
    return cli("targets --json");
  };
  const json last = listed("units=7").json().back();
  EXPECT_EQ(last["name"], "opencl:0");
  EXPECT_EQ(last["target"], "opencl:fake-board");
  EXPECT_EQ(last["device"], "Fake board");
  EXPECT_EQ(last["units"], 7);
  EXPECT_EQ(last["runs_here"], true);
  EXPECT_TRUE(contains(cli("targets").out, "yes: Fake board"));
  EXPECT_EQ(cli("targets opencl:fake --json").json()["name"], "opencl:fake-board");
  // What is wrong with one is said beside the others.
  const CliRun absurd = listed("group=0");
  EXPECT_EQ(absurd.code, 0);
  EXPECT_NE(absurd.json().back()["name"], "opencl:0");
  EXPECT_TRUE(contains(absurd.err, "opencl:0 (Fake board) cannot be used: groups of up to 0 items"))
      << absurd.err;
  const CliRun dead = listed("list_dies");
  EXPECT_EQ(dead.code, 0);
  EXPECT_TRUE(contains(dead.err, "an OpenCL driver ends its process")) << dead.err;
  EXPECT_EQ(listed("no_platform").err, "");
  unsetenv("LOOPWRIGHT_OPENCL");
  unsetenv("LW_FAKE_OPENCL");
}

TEST_F(CliTest, DoctorMeasuresADriversDevice) {
  setenv("LOOPWRIGHT_OPENCL", LW_BINARY_DIR "/libfake_opencl.so", 1);
  setenv("LW_FAKE_OPENCL", "", 1);
  setenv("XDG_STATE_HOME", (std::filesystem::path(testing::TempDir()) / "doctors_state").c_str(), 1);
  const json report = cli("doctor --target opencl:0 --json").json();
  EXPECT_EQ(report["device"], "Fake board");
  EXPECT_EQ(report["kept"], true);
  EXPECT_GE(report["figures"].size(), 10u);
  EXPECT_LE(report["figures"].size(), 11u);  // a cache, where reads of some window were faster
  EXPECT_EQ(report["figures"][0]["what"], "copy, vectors of 1");
  EXPECT_TRUE(contains(cli("doctor --target opencl:0").out, "measured in "));
  setenv("LW_FAKE_OPENCL", "build_dies", 1);
  const CliRun dead = cli("doctor --target opencl:0");
  EXPECT_EQ(dead.code, 5);
  EXPECT_TRUE(contains(dead.err, "measuring 'Fake board': SIGSEGV")) << dead.err;
  for (const char* name : {"LOOPWRIGHT_OPENCL", "LW_FAKE_OPENCL", "XDG_STATE_HOME"}) unsetenv(name);
}

TEST_F(CliTest, DoctorSaysWhatAGpusDriverDoes) {
  setenv("LOOPWRIGHT_CUDA", LW_BINARY_DIR "/libfake_cuda.so", 1);
  setenv("LOOPWRIGHT_NVML", LW_BINARY_DIR "/libfake_cuda.so", 1);
  const json report = cli("doctor --target cuda:0 --json").json();
  EXPECT_EQ(report["device"], "NVIDIA Fake");
  EXPECT_EQ(report["driver"], "CUDA 12.4, 550.54.15");
  EXPECT_EQ(report["facts"]["compute capability"], "9.0");
  EXPECT_EQ(report["facts"]["clocks held by"], "its power limit");
  EXPECT_FALSE(report.contains("kept")) << "nothing was measured";
  const auto clock = std::find_if(report["figures"].begin(), report["figures"].end(),
                                  [](const json& one) { return one["what"] == "clock, now"; });
  ASSERT_NE(clock, report["figures"].end());
  EXPECT_EQ((*clock)["value"], 1755);
  EXPECT_TRUE(contains(cli("doctor --target nvidia_sm90a").out, "NVIDIA Fake"));
  setenv("LOOPWRIGHT_NVML", "/nowhere", 1);
  EXPECT_TRUE(contains(cli("doctor --target cuda:0").out, "libnvidia-ml.so.1 is not there"));
  setenv("LOOPWRIGHT_CUDA", "/nowhere", 1);
  EXPECT_TRUE(contains(cli("doctor --target cuda:0").err, "no CUDA here"));
  unsetenv("LOOPWRIGHT_CUDA");
  unsetenv("LOOPWRIGHT_NVML");
}

TEST_F(CliTest, TargetsAreReadFromFiles) {
  const json shown = cli("targets x86_avx2 --json").json();
  write("mine.json", shown.dump());
  EXPECT_EQ(cli("targets mine.json --json").json(), shown);
  EXPECT_EQ(cli("show --stage nest --target mine.json " + std::string(kTiny)).code, 0);
  // As npu_sim takes it.
  const npu::Config mid32 = *npu::find_config("mid32");
  write("my_npu.json", npu::print_config(mid32));
  EXPECT_EQ(cli("targets my_npu.json --json").json(), cli("targets npu_mid32 --json").json());
  npu::Config wrong = mid32;
  wrong.dram.page = 1000;
  write("my_npu.json", npu::print_config(wrong));
  const CliRun refused = cli("tune --target my_npu.json " + std::string(kTiny));
  EXPECT_EQ(refused.code, 1);
  EXPECT_TRUE(contains(refused.err, "my_npu.json: dram.page: a power of two, not 1000"))
      << refused.err;
  EXPECT_TRUE(contains(cli("targets gone.json").err, "gone.json"));
}

}  // namespace
}  // namespace lw
