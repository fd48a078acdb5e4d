// Every command as a user runs it: results, JSON, exit codes, and what is said about mistakes.
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "loopwright/program.h"
#include "src/api/run/npy.h"
#include "tests/support/cli_fixture.h"

namespace lw {
namespace {

using testing::TempDir;
using nlohmann::json;

// A float array as a .npy file, by the library's own writer.
void save(const std::string& path, const std::vector<int64_t>& shape,
          const std::vector<float>& values) {
  Tensor tensor;
  tensor.name = "t";
  tensor.shape = shape;
  ASSERT_TRUE(write_npy(path, tensor, reinterpret_cast<const std::byte*>(values.data())).ok());
}

std::vector<float> load_floats(const std::string& path, const std::vector<int64_t>& shape) {
  Tensor tensor;
  tensor.name = "t";
  tensor.shape = shape;
  std::vector<float> values(static_cast<size_t>(elements(tensor)));
  const absl::Status status = read_npy(path, tensor, reinterpret_cast<std::byte*>(values.data()));
  EXPECT_TRUE(status.ok()) << status;
  return values;
}

std::vector<float> ramp(size_t count, int period) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(static_cast<int>(i % period) - period / 2);
  return values;
}

TEST_F(CliTest, HelpAndVersionGoToStdout) {
  const CliRun help = cli("--help");
  EXPECT_EQ(help.code, 0);
  EXPECT_TRUE(contains(help.out, "tune")) << help.out;
  EXPECT_EQ(cli("tune --help").code, 0);
  EXPECT_TRUE(contains(cli("--version").out, "loopwright "));
}

TEST_F(CliTest, UsageErrorsNameTheNearest) {
  const CliRun command = cli("tun matmul");
  EXPECT_EQ(command.code, 1);
  EXPECT_TRUE(contains(command.err, "did you mean 'tune'")) << command.err;
  EXPECT_TRUE(command.out.empty());
  const CliRun option = cli("tune matmul --trails 3");
  EXPECT_EQ(option.code, 1);
  EXPECT_TRUE(contains(option.err, "did you mean '--trials'")) << option.err;
  EXPECT_EQ(cli("").code, 1);
  EXPECT_EQ(cli("tune").code, 1);
  EXPECT_EQ(cli("tune matmul --threads 0").code, 1);
  EXPECT_EQ(cli("show matmul --stage nonsense").code, 1);
}

TEST_F(CliTest, WrongWorkloadsAreRefused) {
  const CliRun op = cli("tune matmull M=8");
  EXPECT_EQ(op.code, 1);
  EXPECT_TRUE(contains(op.err, "did you mean 'matmul'")) << op.err;
  EXPECT_FALSE(std::filesystem::exists(path("loopwright.db")));
  for (const char* words :
       {"tune matmul M=0", "tune matmul M=-5", "tune matmul M=99999999999999999999",
        "tune matmul M=4000000000 N=4000000000", "tune matmul Q=3",
        "tune matmul M=1000000 N=1000000 K=8", "tune nothing.te", "show matmul --target riscv",
        "tune matmul --const Z"}) {
    const CliRun run = cli(words);
    EXPECT_EQ(run.code, 1) << words << "\n" << run.err;
    EXPECT_FALSE(run.err.empty());
    EXPECT_TRUE(run.out.empty()) << run.out;
  }
}

TEST_F(CliTest, ErrorsOfAFileComeWithTheirLines) {
  write("bad.te", "op f(N = 4) {\n  in X: f32[N]\n  out Y[i: N] = X[i + 1] + Z[i]\n}\n");
  const CliRun run = cli("tune bad.te");
  EXPECT_EQ(run.code, 1);
  EXPECT_TRUE(contains(run.err, "bad.te:3:")) << run.err;
}

TEST_F(CliTest, OpsListsTheLibrary) {
  const json all = cli("ops --json").json();
  EXPECT_GT(all.size(), 20u);
  const json one = cli("ops matmul --json").json();
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0]["name"], "matmul");
  EXPECT_TRUE(contains(cli("ops --format csv").out, "op,parameters,what\n"));
  const CliRun unknown = cli("ops softmaxx");
  EXPECT_EQ(unknown.code, 1);
  EXPECT_TRUE(contains(unknown.err, "softmax")) << unknown.err;
}

TEST_F(CliTest, TargetsListsTheHost) {
  const json all = cli("targets --json").json();
  EXPECT_EQ(all[0]["name"], "host");
  EXPECT_EQ(all[0]["runs_here"], true);
  EXPECT_EQ(cli("targets x86_avx2 --json").json()["name"], "x86_avx2");
  EXPECT_EQ(cli("targets z80").code, 1);
}

TEST_F(CliTest, KernelsOfAnotherArchitectureAreVerifiedAndTheirTimesEstimated) {
  const std::string task = std::string(kTiny) + " --target aarch64_neon";
  EXPECT_TRUE(contains(cli("show --stage asm " + task).out, "\tret"));
  const CliRun exported = cli("export --unverified -o out " + task);
  EXPECT_EQ(exported.code, 0) << exported.err;
  const json all = cli("targets --json").json();
  bool emulated = false;
  for (const json& entry : all) {
    if (entry["name"] == "aarch64_neon") emulated = entry["emulated_here"];
  }
  const CliRun tuned = cli("tune --json -q --trials 3 " + task);
  if (!emulated) {
    const CliRun unchecked = cli("export -o out " + task);
    EXPECT_EQ(unchecked.code, 2);
    EXPECT_TRUE(contains(unchecked.err, "--unverified")) << unchecked.err;
    EXPECT_EQ(tuned.code, 2);
    EXPECT_TRUE(contains(tuned.err, "aarch64")) << tuned.err;
    GTEST_SKIP() << "[SKIP] no emulator or no runner: " << tuned.err;
  }
  EXPECT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_EQ(tuned.json()["estimated"], true);
  EXPECT_EQ(tuned.json()["best"]["verified"], true);
  // What needs a clock is refused.
  EXPECT_EQ(cli("bench " + task).code, 2);
}

TEST_F(CliTest, DoctorMeasuresThisMachine) {
  const CliRun run = cli("doctor --quick --json");
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_TRUE(run.json().is_object());
  EXPECT_FALSE(cli("doctor --quick").out.empty());
}

TEST_F(CliTest, TuneStoresAndAnswersFromTheStore) {
  const CliRun run = cli(std::string("tune --json -q --trials 12 --seconds 30 ") + kTiny);
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_TRUE(run.err.empty()) << run.err;
  const json result = run.json();
  for (const char* field : {"workload", "canonical_sha256", "target", "threads", "trials", "failed",
                            "deduped", "wall_s", "best", "zero_trial", "curve", "breakdown_s"}) {
    EXPECT_TRUE(result.contains(field)) << field;
  }
  for (const char* field : {"time_us", "ci_us", "gflops", "bound_us", "bound_fraction",
                            "peak_fraction", "trace", "verified", "error"}) {
    EXPECT_TRUE(result["best"].contains(field)) << field;
  }
  EXPECT_EQ(result["best"]["verified"], true);
  EXPECT_GT(result["best"]["time_us"], 0);
  EXPECT_LE(result["best"]["ci_us"][0], result["best"]["ci_us"][1]);
  EXPECT_EQ(result["canonical_sha256"].get<std::string>().size(), 64u);
  EXPECT_FALSE(result["curve"].empty());
  EXPECT_EQ(result["zero_trial"]["verified"], true);

  const auto begin = std::chrono::steady_clock::now();
  const json again = cli(std::string("tune --json -q --trials 12 --seconds 30 ") + kTiny).json();
  EXPECT_EQ(again["trials"], result["trials"]);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));

  const json best = cli(std::string("best --json ") + kTiny).json();
  EXPECT_EQ(best["outcome"], "exact");
  EXPECT_EQ(best["record"]["canonical_sha256"], result["canonical_sha256"]);
  EXPECT_EQ(cli(std::string("best --frozen ") + kTiny).code, 0);
  const json near = cli("best --json matmul M=24 N=40 K=32 --threads 1").json();
  EXPECT_EQ(near["outcome"], "nearest-shape");
  EXPECT_EQ(cli("best --frozen matmul M=24 N=40 K=32 --threads 1").code, 2);
}

TEST_F(CliTest, TuneWithoutTrialsVerifiesTheZeroTrialAnswer) {
  const CliRun run = cli(std::string("tune --json -q --trials 0 ") + kTiny);
  ASSERT_EQ(run.code, 0) << run.err;
  const json result = run.json();
  EXPECT_GT(result["zero_trial"]["time_us"], 0);
  EXPECT_EQ(result["zero_trial"]["verified"], true);
}

TEST_F(CliTest, TuneOfASuiteTunesEveryNamedCase) {
  const std::string suite = LW_SOURCE_DIR "/bench/workloads/ansor.json";
  const CliRun run =
      cli("tune --json -q --trials 4 --seconds 20 --threads 1 --suite " + suite + " GMM1_b1");
  ASSERT_EQ(run.code, 0) << run.err;
  ASSERT_EQ(run.json()["workloads"].size(), 1u);
  EXPECT_EQ(run.json()["workloads"][0]["name"], "GMM1_b1");
  const CliRun unknown = cli("tune --suite " + suite + " GMM1_b2");
  EXPECT_EQ(unknown.code, 1);
  EXPECT_TRUE(contains(unknown.err, "did you mean")) << unknown.err;
}

TEST_F(CliTest, TypesThatATargetLacksAreEmulated) {
  for (const char* workload : {"matmul M=9 N=17 K=5 T=bf16", "matmul M=9 N=17 K=5 T=f16",
                               "dense_i8 M=9 N=17 K=5"}) {
    const CliRun run = cli(std::string("tune --json -q --trials 0 --threads 1 --target x86_sse2 ") +
                           workload);
    ASSERT_EQ(run.code, 0) << workload << "\n" << run.err;
    EXPECT_EQ(run.json()["best"]["verified"], true) << workload;
  }
}

constexpr char kSpoiltSuite[] = R"({"workloads": [
  {"name": "fine", "words": "matmul M=24 N=40 K=16"},
  {"name": "unknown", "words": "matmull M=24"},
  {"name": "strange", "op": "XYZ", "params": {}},
  {"name": "impossible", "words": "conv2d H=3 W=3 R=9 S=9 pad=0"},
  {"name": "huge", "words": "matmul M=100000000 N=100000000 K=1"},
  {"name": "fine", "words": "matmul M=8 N=8 K=8"},
  {"name": "also", "words": "row_sum M=16 N=24"}]})";

TEST_F(CliTest, TuneOfASuiteRefusesCasesByNameAndTunesTheOthers) {
  write("spoilt.json", kSpoiltSuite);
  const CliRun run =
      cli("tune --json -q --trials 2 --seconds 20 --threads 1 --suite spoilt.json");
  EXPECT_EQ(run.code, 1) << run.err;
  const json result = run.json();
  ASSERT_EQ(result["workloads"].size(), 2u) << result;
  for (const json& one : result["workloads"]) EXPECT_EQ(one["best"]["verified"], true) << one;
  EXPECT_EQ(result["workloads"][1]["name"], "also");
  const char* names[] = {"strange", "fine", "unknown", "impossible", "huge"};
  ASSERT_EQ(result["refused"].size(), std::size(names)) << result["refused"];
  for (size_t i = 0; i < std::size(names); ++i) {
    EXPECT_EQ(result["refused"][i]["name"], names[i]);
    EXPECT_TRUE(contains(run.err, std::string("refused: ") + names[i] + ": ")) << run.err;
  }
  EXPECT_TRUE(contains(run.err, "did you mean 'matmul'?")) << run.err;
}

TEST_F(CliTest, TuneOfASuiteWithNothingLeftIsAWrongRequest) {
  write("spoilt.json", kSpoiltSuite);
  const CliRun run = cli("tune --json -q --suite spoilt.json unknown impossible");
  EXPECT_EQ(run.code, 1);
  EXPECT_TRUE(contains(run.err, "unknown: ")) << run.err;
  EXPECT_TRUE(contains(run.err, "impossible: ")) << run.err;
  write("empty.json", R"({"workloads": []})");
  EXPECT_EQ(cli("tune --suite empty.json").code, 1);
  // What is wrong with all of them alike is said once, with its own code.
  const CliRun target = cli("tune --target x99 --suite spoilt.json fine also");
  EXPECT_EQ(target.code, 1);
  EXPECT_FALSE(contains(target.err, "also: ")) << target.err;
  EXPECT_EQ(cli("tune --threads 4000 --suite spoilt.json fine also").code, 2);
  EXPECT_FALSE(std::filesystem::exists(path("loopwright.db")));
}

TEST_F(CliTest, InterruptedTuneKeepsWhatItMeasured) {
  const pid_t child = start(command({"tune", "matmul", "M=96", "N=96", "K=96", "--threads", "1",
                                     "--trials", "100000", "--seconds", "120", "-v", "--json"}));
  for (int i = 0; i < 1200 && !contains(slurp(path("stderr")), "stored "); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  kill(child, SIGINT);
  const CliRun run = finish(child);
  EXPECT_EQ(run.code, 4) << run.err;
  EXPECT_EQ(run.json()["interrupted"], true);
  EXPECT_GT(cli("db stats --json").json()["measurements"], 0);
}

TEST_F(CliTest, UntunedAnswersSayThatTheyAre) {
  const CliRun show = cli(std::string("show --stage kernel ") + kTiny);
  EXPECT_EQ(show.code, 0) << show.err;
  EXPECT_TRUE(contains(show.err, "untuned"));
  EXPECT_EQ(cli(std::string("show --frozen ") + kTiny).code, 2);
  EXPECT_EQ(cli(std::string("bench --frozen ") + kTiny).code, 2);
  EXPECT_EQ(cli(std::string("export --frozen -o x ") + kTiny).code, 2);
  EXPECT_FALSE(std::filesystem::exists(path("loopwright.db")));
}

TEST_F(CliTest, ShowPrintsEveryStageAndTakesItsOwnTrace) {
  for (const char* stage : {"expr", "trace", "nest", "kernel", "llvm", "asm"}) {
    const CliRun run = cli(std::string("show --stage ") + stage + " " + kTiny);
    EXPECT_EQ(run.code, 0) << stage << "\n" << run.err;
    EXPECT_FALSE(run.out.empty()) << stage;
  }
  write("t.trace", cli(std::string("show --stage trace ") + kTiny).out);
  const std::string kernel = cli(std::string("show --stage kernel ") + kTiny).out;
  EXPECT_EQ(cli(std::string("show --stage kernel --trace t.trace ") + kTiny).out, kernel);
  write("bad.trace", "splat(C, i; 4)\n");
  EXPECT_EQ(cli(std::string("show --trace bad.trace ") + kTiny).code, 1);
  write("infeasible.trace", "split(C, nowhere; 4, 0)\n");
  EXPECT_EQ(cli(std::string("show --trace infeasible.trace ") + kTiny).code, 1);
}

TEST_F(CliTest, SpaceCountsItsSketches) {
  const json space = cli(std::string("space --samples 2 --json ") +
                         "matmul M=128 N=128 K=128 --threads 1").json();
  ASSERT_FALSE(space["sketches"].empty());
  EXPECT_GT(space["size"], 1.0);
  for (const json& sketch : space["sketches"]) {
    EXPECT_LE(sketch["samples"].size(), 2u);
    EXPECT_GT(sketch["feasible"], 0) << sketch;
  }
}

TEST_F(CliTest, WinogradIsForWhoeverAllowsItAlone) {
  const std::string conv = " conv2d H=8 W=8 CI=16 CO=16 --threads 1 --json";
  EXPECT_EQ(cli("space" + conv).out.find("winograd"), std::string::npos);
  EXPECT_NE(cli("space" + conv + " --allow winograd").out.find("winograd(Y"), std::string::npos);
  EXPECT_EQ(cli("tune" + conv + " --trials 4 --allow winograd").code, 0);
  EXPECT_EQ(cli("best" + conv + " --frozen --allow winograd").code, 0);
  EXPECT_EQ(cli("best" + conv + " --frozen").code, 2);
}

TEST_F(CliTest, RunAgreesWithTheReference) {
  save(path("a.npy"), {24, 16}, ramp(24 * 16, 7));
  save(path("b.npy"), {16, 40}, ramp(16 * 40, 5));
  const std::string in = " -i A=a.npy -i B=b.npy ";
  const CliRun kernel = cli("run --json -o C=c.npy" + in + kTiny);
  ASSERT_EQ(kernel.code, 0) << kernel.err;
  EXPECT_GT(kernel.json()["time_us"], 0);
  ASSERT_EQ(cli("run --reference -o C=r.npy" + in + kTiny).code, 0);
  EXPECT_EQ(load_floats(path("c.npy"), {24, 40}), load_floats(path("r.npy"), {24, 40}));
}

TEST_F(CliTest, RunSaysWhatAnInputShouldBe) {
  save(path("a.npy"), {24, 16}, ramp(24 * 16, 7));
  save(path("wide.npy"), {24, 17}, ramp(24 * 17, 7));
  const std::string words = std::string(" ") + kTiny;
  const CliRun missing = cli("run -i A=a.npy" + words);
  EXPECT_EQ(missing.code, 1);
  EXPECT_TRUE(contains(missing.err, "-i B=FILE.npy")) << missing.err;
  const CliRun shape = cli("run -i A=wide.npy -i B=a.npy" + words);
  EXPECT_EQ(shape.code, 1);
  EXPECT_TRUE(contains(shape.err, "(24, 16)") && contains(shape.err, "(24, 17)")) << shape.err;
  EXPECT_EQ(cli("run -i Q=a.npy" + words).code, 1);
  EXPECT_EQ(cli("run -i A=none.npy -i B=a.npy" + words).code, 1);
}

TEST_F(CliTest, RunAgreesWithNumPy) {
  write("make.py", R"(import numpy as np
r = np.random.default_rng(1)
for name, shape in (("A", (24, 16)), ("B", (16, 40)), ("bias", (40,))):
    np.save(name, r.standard_normal(shape, dtype=np.float32))
np.save("F", np.asfortranarray(np.load("A.npy")))
np.save("D", np.load("A.npy").astype(np.float64))
)");
  write("check.py", R"(import numpy as np
A, B, bias = (np.load(n + ".npy").astype(np.float64) for n in ("A", "B", "bias"))
want = np.maximum(A @ B + bias, 0)
got = np.load("out.npy")
assert got.dtype == np.float32 and got.shape == want.shape and got.flags.c_contiguous
assert np.abs(got - want).max() < 1e-5, np.abs(got - want).max()
)");
  const CliRun make = program({"/usr/bin/python3", "make.py"});
  if (make.code != 0) GTEST_SKIP() << "[SKIP] no NumPy: " << make.err;
  const std::string op = LW_SOURCE_DIR "/examples/dense_relu.te M=24 N=40 K=16 --threads 1";
  const CliRun run = cli("run -i A=A.npy -i B=B.npy -i bias=bias.npy -o D=out.npy " + op);
  ASSERT_EQ(run.code, 0) << run.err;
  const CliRun check = program({"/usr/bin/python3", "check.py"});
  EXPECT_EQ(check.code, 0) << check.err;
  const CliRun order = cli("run -i A=F.npy -i B=B.npy -i bias=bias.npy " + op);
  EXPECT_EQ(order.code, 1);
  EXPECT_TRUE(contains(order.err, "Fortran")) << order.err;
  const CliRun type = cli("run -i A=D.npy -i B=B.npy -i bias=bias.npy " + op);
  EXPECT_EQ(type.code, 1);
  EXPECT_TRUE(contains(type.err, "f32") && contains(type.err, "<f8")) << type.err;
}

TEST_F(CliTest, BenchTimesTheBest) {
  const CliRun run = cli(std::string("bench --json --seconds 0.2 ") + kTiny);
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_GT(run.json()["ours"]["time_us"], 0);
  EXPECT_TRUE(run.json()["peers"].empty());
  const CliRun peers = cli(std::string("bench --peers --json --seconds 0.5 ") + kTiny);
  ASSERT_EQ(peers.code, 0) << peers.err;
  const json found = peers.json();
  for (const json& peer : found["peers"]) EXPECT_GT(peer["time_us"], 0) << peer;
}

// The export needs nothing but a C compiler.
TEST_F(CliTest, ExportLinksIntoACProgram) {
  const CliRun run = cli(std::string("export --json -o out ") + kTiny);
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.json()["files"].size(), 3u);
  const json metadata = json::parse(slurp(path("out/matmul.json")));
  EXPECT_EQ(metadata["entry"], "matmul");
  EXPECT_EQ(metadata["arguments"].size(), 3u);
  write("main.c", R"(#include <stdio.h>
#include <stdlib.h>

#include "out/matmul.h"
static float A[24 * 16], B[16 * 40], C[24 * 40];
int main(void) {
  for (int i = 0; i < 24 * 16; ++i) A[i] = i % 7 - 3;
  for (int i = 0; i < 16 * 40; ++i) B[i] = i % 5 - 2;
  size_t bytes = (MATMUL_WORKSPACE_BYTES(1) + 127) / 64 * 64;
  lw_context context = {0, 0, 1, aligned_alloc(64, bytes), 0};
  void* buffers[] = {A, B, C};
  if (matmul(&context, buffers) != 0) return 2;
  for (int i = 0; i < 24; ++i)
    for (int j = 0; j < 40; ++j) {
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += A[i * 16 + k] * B[k * 40 + j];
      if (sum != C[i * 40 + j]) return 3;
    }
  puts("equal");
  return 0;
}
)");
  const CliRun compile =
      program({"gcc", "-std=c11", "-Wall", "-Werror", "-o", "main", "main.c", "out/matmul.o"});
  ASSERT_EQ(compile.code, 0) << compile.err;
  const CliRun ran = program({path("main")});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.out, "equal\n");
}

TEST_F(CliTest, DbListsExportsImportsPrunesChecks) {
  EXPECT_EQ(cli("db ls").code, 2);         // no database yet
  ASSERT_EQ(cli(std::string("tune -q --trials 6 --seconds 20 ") + kTiny).code, 0);
  const json keys = cli("db ls --json").json();
  ASSERT_EQ(keys.size(), 1u);
  const std::string id = keys[0]["canonical_sha256"];
  const json rows = cli("db show --json " + id.substr(0, 8)).json();
  EXPECT_EQ(rows.size(), keys[0]["measurements"]);
  EXPECT_EQ(cli("db show ffff").code, 2);
  ASSERT_EQ(cli("db export -o all.jsonl").code, 0);
  EXPECT_EQ(cli("db export").out, slurp(path("all.jsonl")));
  EXPECT_EQ(cli("db import --json --db copy.db all.jsonl").json()["imported"], rows.size());
  EXPECT_EQ(cli("db import --json --db copy.db all.jsonl").json()["imported"], 0);
  EXPECT_EQ(cli("best --frozen --db copy.db " + std::string(kTiny)).code, 0);
  write("bad.jsonl", "{\"nonsense\": 1}\n");
  EXPECT_EQ(cli("db import --db copy.db bad.jsonl").code, 1);
  write("empty.jsonl", "");
  EXPECT_EQ(cli("db import --json --db copy.db empty.jsonl").json()["imported"], 0);
  EXPECT_EQ(cli("db check --db copy.db").code, 0);
  EXPECT_EQ(cli("db prune --keep 1 --days 0 --db copy.db").code, 0);
  EXPECT_EQ(cli("best --frozen --db copy.db " + std::string(kTiny)).code, 0);
  EXPECT_EQ(cli("db stats --json").json()["measurements"], rows.size());
}

TEST_F(CliTest, BadDatabasesAreTheEnvironmentsFault) {
  write("text.db", std::string(8192, 'x'));
  for (const char* words : {"db ls --db text.db", "best --db text.db matmul", "report --db text.db",
                            "tune matmul -q --trials 1 --db text.db",
                            "tune matmul -q --trials 1 --db no/such/folder/x.db"}) {
    const CliRun run = cli(words);
    EXPECT_EQ(run.code, 5) << words << "\n" << run.err;
    EXPECT_TRUE(run.out.empty()) << run.out;
  }
  EXPECT_EQ(slurp(path("text.db")), std::string(8192, 'x'));
}

TEST_F(CliTest, NewerDatabaseAndFullDiskAreSaid) {
  ASSERT_EQ(cli(std::string("tune -q --trials 2 --seconds 20 ") + kTiny).code, 0);
  const CliRun full = cli("db export -o /dev/full");
  EXPECT_EQ(full.code, 5) << full.err;
  EXPECT_EQ(cli("run --reference -o C=/dev/full matmul M=1").code, 1);  // inputs are missing
  std::string file = slurp(path("loopwright.db"));
  file[60 + 2] = 9;                        // user_version, big-endian at byte 60
  write("newer.db", file);
  const CliRun newer = cli(std::string("tune -q --trials 2 --db newer.db ") + kTiny);
  EXPECT_EQ(newer.code, 5) << newer.err;
  EXPECT_TRUE(contains(newer.err, "newer.db") && contains(newer.err, "newer")) << newer.err;
  EXPECT_EQ(slurp(path("newer.db")), file);
}

TEST_F(CliTest, LoserOfTwoTunesOnOneKeyNamesTheOther) {
  const pid_t first = start(command({"tune", "matmul", "M=96", "N=96", "K=96", "--threads", "1",
                                     "--trials", "100000", "--seconds", "120", "-v"}));
  for (int i = 0; i < 1200 && !contains(slurp(path("stderr")), "stored "); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  const std::string outputs = path("other");
  std::filesystem::create_directory(outputs);
  const std::string folder = std::exchange(folder_, outputs);
  const CliRun second = cli("tune matmul M=96 N=96 K=96 --threads 1 -q --db ../loopwright.db");
  folder_ = folder;
  EXPECT_EQ(second.code, 5) << second.err;
  EXPECT_TRUE(contains(second.err, std::to_string(first))) << second.err;
  kill(first, SIGTERM);
  EXPECT_EQ(finish(first).code, 4);
}

// A document a line for who shows it elsewhere.
TEST_F(CliTest, ProgressForPrograms) {
  const CliRun run = cli(std::string("tune -q --json --progress json --trials 4 --seconds 20 ") + kTiny);
  ASSERT_EQ(run.code, 0) << run.err;
  std::istringstream lines(run.err);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const nlohmann::json document = nlohmann::json::parse(line, nullptr, false);
    ASSERT_TRUE(document.is_object()) << line;
    EXPECT_EQ(document["workload"], "matmul M=24 N=40 K=16");
    EXPECT_GE(document["trials"], 0);
  }
  EXPECT_GE(count, 1);
}

}  // namespace
}  // namespace lw
