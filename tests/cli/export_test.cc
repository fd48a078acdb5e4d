// What `export` writes, and what is made of it: symbols by entry, libraries, depfiles, facts, functions
// that choose, checks.
#include <dlfcn.h>

#include "gmock/gmock.h"
#include "loopwright/context.h"
#include "src/base/hash.h"
#include "tests/support/cli_fixture.h"

namespace lw {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kExported[] = " matmul M=6 N=16 K=512 --threads 1 ";

class ExportTest : public CliTest {
 protected:
  // Untuned kernels: nothing here is about schedules.
  CliRun out(const std::string& words) { return cli("export -q -o out" + words); }
  json facts(const std::string& name) { return json::parse(slurp(path("out/" + name + ".json"))); }
};

TEST_F(ExportTest, ShapesAndTargetsHaveSymbolsOfTheirOwn) {
  ASSERT_EQ(out(kExported + std::string("--entry mm_6")).code, 0);
  ASSERT_EQ(out(" matmul M=7 N=16 K=8 --threads 1 --entry mm_7").code, 0);
  ASSERT_EQ(out(kExported + std::string("--target x86_sse2 --entry mm_6_sse2")).code, 0);
  for (const char* name : {"mm_6", "mm_7", "mm_6_sse2"}) {
    const CliRun symbols = program({"nm", "-g", path(std::string("out/") + name + ".o")});
    ASSERT_EQ(symbols.code, 0) << symbols.err;
    std::istringstream lines(symbols.out);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_THAT(line, HasSubstr(std::string(" ") + name));
      EXPECT_THAT(line, Not(HasSubstr(" U ")));
    }
    EXPECT_EQ(facts(name)["entry"], name);
  }
  const CliRun linked = program({"ld", "-r", "-o", path("all.o"), path("out/mm_6.o"),
                                 path("out/mm_7.o"), path("out/mm_6_sse2.o")});
  EXPECT_EQ(linked.code, 0) << linked.err;
  // One name for two shapes would lose the first.
  const CliRun clash = out(" matmul M=8 N=16 K=8 --threads 1 --entry mm_7");
  EXPECT_EQ(clash.code, 1);
  EXPECT_THAT(clash.err, HasSubstr("give this kernel a name of its own (--entry)"));
  EXPECT_EQ(facts("mm_7")["workload"], "matmul M=7 N=16 K=8");
  EXPECT_THAT(out(kExported + std::string("--entry 6mm")).err, HasSubstr("identifier of C"));
}

TEST_F(ExportTest, FactsSayWhatFrameworksMustKnow) {
  ASSERT_EQ(out(kExported + std::string("--const B --shared --entry mm")).code, 0);
  const json said = facts("mm");
  EXPECT_EQ(said["abi"], LOOPWRIGHT_ABI);
  EXPECT_EQ(said["arguments"][0]["read_by_run"], true);
  EXPECT_EQ(said["arguments"][1]["const"], true);
  EXPECT_EQ(said["arguments"][1]["read_by_run"], false);  // only the packed copy is
  EXPECT_EQ(said["arguments"][1]["alignment"], 4);
  EXPECT_FALSE(said["arguments"][2].contains("read_by_run"));
  EXPECT_GT(said["packed_bytes"], 0);
  for (const auto& [name, sum] : said["files"].items()) {
    EXPECT_EQ(sum, sha256(slurp(path("out/" + name)))) << name;
  }
  EXPECT_EQ(said["files"].size(), 3u);
  EXPECT_EQ(said["library"], "mm.so");
  // The library says the same, by itself.
  void* library = dlopen(path("out/mm.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto* kernel = static_cast<const lw_kernel*>(dlsym(library, "loopwright_kernel"));
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(dlsym(library, "mm_kernel"), kernel);
  EXPECT_EQ(kernel->abi, LOOPWRIGHT_ABI);
  EXPECT_EQ(kernel->packed_bytes, said["packed_bytes"]);
  EXPECT_EQ(kernel->argument[1].flags, LW_CONST);
  EXPECT_EQ(kernel->argument[0].shape[1], 512);
  EXPECT_EQ(said["digest"], kernel->digest);
  const json own = json::parse(kernel->facts);
  for (const auto& [name, value] : own.items()) EXPECT_EQ(said[name], value) << name;
  EXPECT_FALSE(own.contains("time_us"));
  dlclose(library);
  const CliRun needs = program({"readelf", "-d", path("out/mm.so")});
  EXPECT_THAT(needs.out, Not(HasSubstr("NEEDED")));
}

TEST_F(ExportTest, NothingSaysWhereTheProgramLay) {
  std::filesystem::create_directories(path("deep/down"));
  write("deep/down/my.te", "op mine(M = 24) {\n  in A: f32[M]\n  out B[i: M] = A[i] + A[i]\n}\n");
  ASSERT_EQ(out(" deep/down/my.te:mine --threads 1 --shared").code, 0);
  for (const auto& file : std::filesystem::directory_iterator(path("out"))) {
    const std::string bytes = slurp(file.path().string());
    EXPECT_FALSE(contains(bytes, folder_)) << file.path();
    EXPECT_FALSE(contains(bytes, "deep/down")) << file.path();
  }
  EXPECT_EQ(facts("mine")["workload"], "my.te:mine");
}

TEST_F(ExportTest, DepfilesNameWhatTheFilesAreMadeOf) {
  write("a.te", "op mine(M = 24) {\n  in A: f32[M]\n  out B[i: M] = A[i] + A[i]\n}\n");
  const CliRun tuned = program(command({"tune", "-q", "--trials", "2", "--seconds", "20", "--threads",
                                        "1", "a.te"}));
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  ASSERT_EQ(cli("db snapshot -o s.lws").code, 0);
  const auto depfile = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"export", "-q", "--threads", "1", "-o", "out", "--depfile",
                                      "out.d", "a.te"};
    words.insert(words.end(), more.begin(), more.end());
    const CliRun run = program(command(words));
    EXPECT_EQ(run.code, 0) << run.err;
    return slurp(path("out.d"));
  };
  EXPECT_EQ(depfile({}), "out/mine.o out/mine.h out/mine.json: " + path("a.te") + " " +
                             path("loopwright.db") + "\n");
  EXPECT_THAT(depfile({"--snapshot", "s.lws", "--frozen"}), HasSubstr(" " + path("s.lws") + "\n"));
  std::filesystem::remove(path("s.lws"));
  const CliRun gone = program(command({"export", "--snapshot", "s.lws", "-o", "out", "a.te"}));
  EXPECT_EQ(gone.code, 5) << gone.err;
}

TEST_F(ExportTest, AMissIsWhatOnMissSays) {
  const CliRun tuned = cli("tune -q --trials 2 --seconds 20 --threads 1 matmul M=24 N=40 K=16");
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  const std::string near = "export --json -o out --threads 1 --unverified matmul M=24 N=40 K=32 ";
  EXPECT_EQ(cli(near + "--on-miss nearest").json()["outcome"], "nearest-shape");
  EXPECT_EQ(cli(near + "--on-miss default").json()["outcome"], "default");
  const CliRun miss = cli(near + "--on-miss error");
  EXPECT_EQ(miss.code, 2);
  const json request = miss.json()["workloads"][0];
  EXPECT_THAT(request["program"].get<std::string>(), HasSubstr("op matmul"));
  EXPECT_EQ(request["threads"], 1);
}

TEST_F(ExportTest, AFunctionChoosesAmongKernels) {
  ASSERT_EQ(out(kExported + std::string("--entry mm_6 --const B")).code, 0);
  ASSERT_EQ(out(" matmul M=7 N=16 K=512 --threads 1 --entry mm_7 --const B").code, 0);
  ASSERT_EQ(out(" softmax M=4 N=8 --threads 1 --entry soft").code, 0);
  ASSERT_EQ(out(" matmul M=7 N=16 K=8 --target opencl_gpu --entry cl --unverified").code, 0);
  const std::string both = " --instance M=6:out/mm_6.json --instance M=7:out/mm_7.json";
  const CliRun made = cli("dispatch mm -o out --hook" + both);
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.err, HasSubstr("not tuned, and never run"));
  EXPECT_THAT(slurp(path("out/mm.h")),
              HasSubstr("int32_t mm(int64_t M, const float* A, const float* B, float* C, "
                        "const void* packed, const lw_context* threads);"));
  const CliRun compiled = program({"cc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-c",
                                   path("out/mm.c"), "-o", path("mm.o")});
  EXPECT_EQ(compiled.code, 0) << compiled.err;
  const auto said = [&](const std::string& words) {
    const CliRun run = cli("dispatch " + words);
    EXPECT_EQ(run.code, 1) << words;
    return run.err;
  };
  EXPECT_THAT(said("6m -o out" + both), HasSubstr("no identifier of C"));
  EXPECT_THAT(said("lw_take -o out" + both), HasSubstr("lw_... are ours"));
  EXPECT_THAT(said("mm -o out --instance M-1=6:out/mm_6.json"), HasSubstr("'M-1' is no identifier"));
  EXPECT_THAT(said("mm -o out --instance packed=6:out/mm_6.json"), HasSubstr("'packed' is the name"));
  EXPECT_THAT(said("mm -o out --instance M:out/mm_6.json"), HasSubstr("is no instance"));
  EXPECT_THAT(said("mm -o out --instance M=6:out/mm_6.json --instance N=7:out/mm_7.json"),
              HasSubstr("other parameters than 'mm_6'"));
  EXPECT_THAT(said("mm -o out --instance M=6:out/mm_6.json --instance M=7:out/soft.json"),
              HasSubstr("other arguments than 'mm_6'"));
  EXPECT_THAT(said("mm -o out --instance M=6:out/mm_6.json --instance M=6:out/mm_7.json"),
              HasSubstr("two kernels for M=6 and host"));
  EXPECT_THAT(said("mm -o out --instance A=6:out/mm_6.json"), HasSubstr("'A' is the name of two"));
  EXPECT_THAT(said("mm -o out --instance out/cl.json"), HasSubstr("a launcher of its own"));
  json odd = facts("mm_6");
  odd["outcome"] = "exact */ \"";
  write("odd.json", odd.dump());
  EXPECT_THAT(said("mm -o out --instance odd.json"), HasSubstr("not what `export` writes"));
  write("none.json", "{}");
  EXPECT_THAT(said("mm -o out --instance none.json"), HasSubstr("not what `export` writes"));
}

TEST_F(ExportTest, WhatWasExportedIsVerified) {
  ASSERT_EQ(out(kExported + std::string("--entry mm --const B")).code, 0);
  const CliRun right = cli("verify out/mm.json");
  EXPECT_EQ(right.code, 0) << right.err;
  const std::string object = slurp(path("out/mm.o"));
  write("out/mm.o", object + "x");
  const CliRun edited = cli("verify out/mm.json");
  EXPECT_EQ(edited.code, 5);
  EXPECT_THAT(edited.err, HasSubstr("is not the file that"));
  // Object and digest together: the program and trace say otherwise.
  const json facts_before = facts("mm");
  json said = facts_before;
  said["files"]["mm.o"] = sha256(object + "x");
  write("out/mm.json", said.dump());
  const CliRun forged = cli("verify out/mm.json");
  EXPECT_EQ(forged.code, 5);
  EXPECT_THAT(forged.err, HasSubstr("give another object than"));
  said["backend"] = "llvm 1.0 r1";
  write("out/mm.json", said.dump());
  EXPECT_THAT(cli("verify out/mm.json").err, HasSubstr("it was made by llvm 1.0 r1, this is"));
  write("out/mm.json", "{}");
  EXPECT_EQ(cli("verify out/mm.json").code, 1);
  EXPECT_EQ(cli("verify out/none.json").code, 5);  // not 2, which ctest takes for a skip
  said["backend"] = facts_before["backend"];
  said["files"] = json::object();
  write("out/mm.json", said.dump());
  EXPECT_THAT(cli("verify out/mm.json").err, HasSubstr("mm.o is not among its files"));
}

}  // namespace
}  // namespace lw
