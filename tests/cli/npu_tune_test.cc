// A simulated machine from the command line: tuned, run, shown, benchmarked, reported, exported,
// locked, and what is refused there.
#include <cmath>

#include "src/base/message.h"
#include "tests/support/cli_fixture.h"

namespace lw {
namespace {

using nlohmann::json;

constexpr char kProduct[] =
    "op mm(M = 64, N = 96, K = 80) {\n  in A: i8[M, K]\n  in B: i8[K, N] const\n"
    "  out C[i: M, j: N] = sum[k: K](A[i, k] * B[k, j])\n}\n";

constexpr char kLayer[] =
    "op layer(M = 64, N = 96, K = 80) {\n  in A: i8[M, K]\n  in B: i8[K, N] const\n"
    "  in b: i32[N]\n  in s: f32[N]\n"
    "  S[i: M, j: N] = sum[k: K](A[i, k] * B[k, j])\n  T[i: M, j: N] = S[i, j] + b[j]\n"
    "  out Y[i: M, j: N] = cast(i8, clamp(round(cast(f32, T[i, j]) * s[j]) - 3, -128, 127))\n}\n";

// Times are computed, so whoever asks again gets the same answer.
TEST_F(CliTest, ANpuIsTunedTheSameEveryTime) {
  write("mm.te", kProduct);
  const auto tuned = [&](const std::string& database) {
    const CliRun run =
        cli("tune mm.te --target npu_mid32 --trials 40 --seed 3 --json --db " + database);
    EXPECT_EQ(run.code, 0) << run.err;
    return run.json();
  };
  const json document = tuned("a.db");
  EXPECT_EQ(document["time_kind"], "simulated");
  const json first = document["best"], second = tuned("b.db")["best"];
  EXPECT_EQ(first["time_us"], second["time_us"]);
  EXPECT_EQ(first["trace"], second["trace"]);
  EXPECT_EQ(first["verified"], true);
  EXPECT_GT(first["bound_fraction"], 0);
  EXPECT_LE(first["bound_fraction"], 1);
  const json counters = first["counters"];
  EXPECT_EQ(counters["cycles"].get<double>(), std::ceil(first["time_us"].get<double>() * 1000));
  EXPECT_GT(counters["bound.mac"], 0);
  const CliRun text = cli("tune mm.te --target npu_mid32 --trials 4 --seed 3 --db c.db");
  EXPECT_TRUE(contains(text.out, "  cycles    ")) << text.out;
  EXPECT_TRUE(contains(text.out, " % of them at least\n")) << text.out;
  const CliRun program = cli("show mm.te --target npu_mid32 --stage npu --db a.db");
  EXPECT_TRUE(contains(program.out, "mx.mm")) << program.out << program.err;
  EXPECT_TRUE(contains(program.out, "signal=")) << program.out;
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// That such a program is linked and runs: tests/package/npu.
TEST_F(CliTest, ANpusWinnerIsExported) {
  write("mm.te", kProduct);
  ASSERT_EQ(cli("tune -q mm.te --target npu_mid32 --trials 4 --seed 3").code, 0);
  const CliRun run = cli("export --frozen --json mm.te --target npu_mid32 -o out");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.json()["files"],
            json::parse(R"(["out/mm.npu", "out/mm.c", "out/mm.h", "out/mm.s", "out/mm.json"])"));
  const json metadata = json::parse(slurp(path("out/mm.json")));
  EXPECT_EQ(metadata["entry"], "mm");
  EXPECT_EQ(metadata["family"], "npu");
  EXPECT_EQ(metadata["time_kind"], "simulated");
  EXPECT_EQ(metadata["arguments"].size(), 3u);
  const std::string header = slurp(path("out/mm.h"));
  EXPECT_TRUE(contains(header, " *   [1] in  B: i8[80, 96] const\n")) << header;
  EXPECT_TRUE(contains(header, " *   [2] 24576 bytes at 0x")) << header;
  EXPECT_EQ(slurp(path("out/mm.s")),
            cli("show --stage npu mm.te --target npu_mid32").out);
  // The simulator's own program takes the same cycles, on the machine that the module names.
  const CliRun timed = program({LW_BINARY_DIR "/npu_sim", "run", "out/mm.npu", "--json"});
  EXPECT_EQ(timed.json()["config"], "mid32");
  EXPECT_EQ(timed.json()["ns"].get<double>() / 1e3, metadata["time_us"].get<double>());
  const CliRun compiled = program({"gcc", "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
                                   "-I", LW_SOURCE_DIR "/include", "-c", "-o", "mm.o", "out/mm.c"});
  EXPECT_EQ(compiled.code, 0) << compiled.err;
}

TEST_F(CliTest, ANpusWinnerIsLocked) {
  write("mm.te", kProduct);
  write("requests", "mm.te\n");
  ASSERT_EQ(cli("tune -q mm.te --target npu_mid32 --trials 4 --seed 3").code, 0);
  ASSERT_EQ(cli("export -q mm.te --target npu_mid32 -o out").code, 0);
  ASSERT_EQ(cli("lock -q --frozen --target npu_mid32 --threads 1 requests -o a.lock").code, 0);
  ASSERT_EQ(cli("fetch -q --lock a.lock -o bundle").code, 0);
  const CliRun run =
      cli("export -q --locked bundle --lock a.lock mm.te --target npu_mid32 -o taken");
  ASSERT_EQ(run.code, 0) << run.err;
  for (const char* file : {"mm.npu", "mm.c", "mm.s"}) {
    EXPECT_EQ(slurp(path(concat("taken/", file))), slurp(path(concat("out/", file)))) << file;
  }
}

TEST_F(CliTest, ANpusWinnerIsBenchmarkedBesideTheUntuned) {
  write("mm.te", kProduct);
  ASSERT_EQ(cli("tune -q mm.te --target npu_mid32 --trials 12 --seed 3").code, 0);
  const CliRun run = cli("bench --json --peers mm.te --target npu_mid32");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_TRUE(contains(run.err, "no library runs on a machine that is simulated")) << run.err;
  const json bench = run.json();
  const json best = cli("best --json mm.te --target npu_mid32").json()["record"];
  EXPECT_EQ(bench["time_kind"], "simulated");
  EXPECT_TRUE(bench["peers"].empty());
  EXPECT_EQ(bench["ours"]["mode"], "exact");
  EXPECT_EQ(bench["ours"]["time_us"], best["time_us"]);
  EXPECT_EQ(bench["ours"]["limits"].size(), 5u);
  EXPECT_EQ(bench["ours"]["limits"][0]["name"], bench["ours"]["limited_by"]);
  EXPECT_LE(bench["ours"]["limits"][0]["cycles"], bench["ours"]["cycles"]);
  EXPECT_LE(bench["bound_us"], bench["ours"]["time_us"]);
  EXPECT_GE(bench["untuned"]["over_ours"], 1);
  EXPECT_EQ(cli("bench --json mm.te --target npu_mid32").out, run.out);
  EXPECT_TRUE(contains(cli("bench mm.te --target npu_mid32").out, "time (simulated)"));
  // Nothing is tuned for another machine: what stands there is the untuned answer alone.
  const CliRun untuned = cli("bench --json --unverified mm.te --target npu_edge16");
  EXPECT_FALSE(untuned.json().contains("untuned")) << untuned.out;
}

TEST_F(CliTest, ANpusReportHasItsTimeline) {
  write("mm.te", kProduct);
  ASSERT_EQ(cli("tune -q mm.te --target npu_mid32 --trials 4 --seed 3").code, 0);
  const CliRun run = cli("report --json --no-machine -o page.html");
  ASSERT_EQ(run.code, 0) << run.err;
  const json task = run.json()["tasks"][0];
  EXPECT_EQ(task["simulation"]["cycles"], std::ceil(1e3 * task["best_us"].get<double>()));  // 1 GHz
  EXPECT_GT(task["bound_us"], 0);
  EXPECT_GT(task["simulation"]["engines"]["MX"]["busy"], 0);
  EXPECT_LE(task["simulation"]["engines"]["MX"]["busy"], 1);
  const std::string page = slurp(path("page.html"));
  EXPECT_EQ(count(page, "<h2>Timeline of "), 1u);
  for (const char* text : {">LD</text>", ">MX</text>", ">VE</text>", ">ST</text>", ">dma</text>",
                           ">compute</text>", "npu_mid32, simulated: ", "waits for a token"}) {
    EXPECT_GE(count(page, text), 1u) << text;
  }
  EXPECT_EQ(count(page, "nan"), 0u);
  EXPECT_EQ(count(page, "<g data-task="), count(page, "</g>"));
}

// Stages of both engines; the sums never leave the machine.
TEST_F(CliTest, AnNpuRequantisesWhatItMultiplied) {
  write("layer.te", kLayer);
  const CliRun run = cli("tune layer.te --target npu_mid32 --trials 24 --json --db l.db");
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.json()["best"]["verified"], true);
  const CliRun program = cli("show layer.te --target npu_mid32 --stage npu --db l.db");
  EXPECT_TRUE(contains(program.out, "mx.mm")) << program.out << program.err;
  EXPECT_TRUE(contains(program.out, "ve.req")) << program.out;
  const CliRun rows = cli("tune softmax M=64 N=100 --target npu_mid32 --trials 8 --json --db s.db");
  EXPECT_EQ(rows.code, 0) << rows.err;
  EXPECT_EQ(rows.json()["best"]["verified"], true);
}

// Of f32, the product of what its operands are rounded to.
TEST_F(CliTest, RoundedOperandsAreForWhoeverAllowsThemAlone) {
  const std::string product = " matmul M=64 N=64 K=64 --target npu_mid32 ";
  const CliRun run = cli("tune --json --trials 8" + product + "--allow bf16");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.json()["best"]["verified"], true);
  const CliRun best = cli("best --frozen --json" + product + "--allow bf16");
  ASSERT_EQ(best.code, 0) << best.err;
  EXPECT_EQ(best.json()["record"]["workload"], "matmul M=64 N=64 K=64 allow=bf16");
  EXPECT_NE(cli("best --frozen" + product).code, 0);
  EXPECT_EQ(cli("best --frozen matmul M=64 N=64 K=64 T=bf16 --target npu_mid32").code, 2);
  const CliRun shown = cli("show --stage expr" + product + "--allow bf16");
  EXPECT_TRUE(contains(shown.out, "in A: f32[64, 64]\n  in B: f32[64, 64]\n"
                                  "  A_bf16[a0: 64, a1: 64] = cast(bf16, A[a0, a1])\n"))
      << shown.out << shown.err;
  ASSERT_EQ(cli("export --frozen" + product + "--allow bf16 -o out").code, 0);
  const std::string header = slurp(path("out/matmul.h"));
  EXPECT_TRUE(contains(header, "[0] in  A: f32[64, 64]\n")) << header;
  EXPECT_TRUE(contains(header, "[2] out C: f32[64, 64]\n")) << header;
  // Its words alone give it again.
  write("requests", "matmul M=64 N=64 K=64 allow=bf16\n");
  EXPECT_EQ(cli("lock requests --target npu_mid32 -o lw.lock --frozen").code, 0);
}

TEST_F(CliTest, WhatANpuDoesNotDoIsRefusedByName) {
  write("mm.te", kProduct);
  EXPECT_TRUE(contains(cli("tune mm.te --target npu_mid32 --threads 2").err, "one thread"));
  const CliRun floats = cli("tune matmul M=64 N=64 K=64 --target npu_mid32 --trials 2 --db f.db");
  EXPECT_NE(floats.code, 0);
  EXPECT_TRUE(contains(floats.err, "of i8 into i32, or of bf16 into f32")) << floats.err;
  EXPECT_TRUE(contains(floats.err, "; matmul has T=bf16 and T=i8; --allow bf16 rounds its operands"))
      << floats.err;
  json machine = json::parse(cli("targets npu_mid32 --json").out);
  machine["mx.dtypes"] = "i8";
  write("i8.json", machine.dump());
  const CliRun bytes = cli("tune matmul M=64 N=64 K=64 --allow bf16 --target i8.json --db f.db");
  EXPECT_NE(bytes.code, 0);
  EXPECT_TRUE(contains(bytes.err, "computes: of i8 into i32, ")) << bytes.err;
  EXPECT_TRUE(contains(bytes.err, "; mx.dtypes has no bf16")) << bytes.err;
  EXPECT_FALSE(contains(bytes.err, "--allow")) << bytes.err;
  write("log.te", "op l(N = 64) {\n  in X: f32[N]\n  out Y[i: N] = log(X[i])\n}\n");
  const CliRun log = cli("tune log.te --target npu_mid32 --trials 2 --db g.db");
  EXPECT_NE(log.code, 0);
  EXPECT_TRUE(contains(log.err, "its vector engine has no log")) << log.err;
}

}  // namespace
}  // namespace lw
