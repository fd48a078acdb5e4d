// Lock files themselves: what stands in one is all that a kernel is made of, and nothing in it can be
// changed apart from the rest. Programs that no file holds, const inputs and Winograd are locked as any.
#include <functional>
#include <map>
#include <set>

#include "src/client/lock.h"
#include "src/client/requests.h"
#include "tests/support/cli_fixture.h"

namespace lw {
namespace {

using nlohmann::json;

constexpr char kWords[] = "matmul M=24 N=40 K=16";
constexpr char kScaled[] =
    "op scaled(M = 24) {\n  in A: f32[M]\n  in s: f32[M]\n  out B[i: M] = A[i] * s[i] + 1\n}\n";

class LockFileTest : public CliTest {
 protected:
  // The lock of these requests, tuned first.
  std::string lock_of(const std::string& requests, const std::string& name = "a.lock") {
    write("requests.txt", requests);
    const CliRun miss = cli("lock requests.txt --threads 1 --frozen -o " + name);
    if (miss.code == 2) {
      write("missing.json", miss.out);
      const CliRun tuned = cli("tune -q --trials 2 --seconds 20 --suite missing.json");
      EXPECT_EQ(tuned.code, 0) << tuned.err;
    }
    const CliRun run = cli("lock requests.txt --threads 1 --frozen -o " + name);
    EXPECT_EQ(run.code, 0) << run.err;
    return slurp(path(name));
  }
};

TEST_F(LockFileTest, AloneMakesTheBundleAndTheKernel) {
  lock_of(kWords);
  ASSERT_EQ(cli("fetch --lock a.lock -o with").code, 0);
  for (const char* end : {"", "-wal", "-shm"}) {
    std::filesystem::remove(path("loopwright.db" + std::string(end)));
  }
  const CliRun run = cli("fetch --lock a.lock -o without");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(slurp(path("with/bundle.json")), slurp(path("without/bundle.json")));
  const CliRun made =
      cli(std::string("export --threads 1 --lock a.lock --shared --json -o out ") + kWords);
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(made.json()["files"].size(), 4u);
  EXPECT_EQ(cli("export --threads 1 --lock a.lock -o out matmul M=8 N=8 K=8").code, 2);
  EXPECT_EQ(cli(std::string("export --entry x --threads 1 --lock a.lock -o out ") + kWords).code, 1);
  EXPECT_EQ(cli(std::string("export --entry matmul --threads 1 --lock a.lock -o o2 ") + kWords).code, 0);
  const CliRun beyond = cli("export --beyond-lock --threads 1 --lock a.lock --json -o o3 matmul M=8 N=8 K=8");
  ASSERT_EQ(beyond.code, 0) << beyond.err;
  EXPECT_EQ(beyond.json()["outcome"], "default");
}

TEST_F(LockFileTest, ProgramsWithoutAFileAreTunedLockedFetchedAndExported) {
  write("program.te", kScaled);
  const std::string program = std::filesystem::canonical(LW_BINARY_DIR "/loopwright");
  const CliRun tuned = finish(start(
      {"sh", "-c", program + " tune -q --trials 2 --seconds 20 --threads 1 - < program.te"}));
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  write("requests.json", json{{"workloads", {{{"name", "s"}, {"program", kScaled},
                                               {"entry", "scaled_24"}}}}}.dump());
  std::filesystem::remove(path("program.te"));
  ASSERT_EQ(cli("lock requests.json --threads 1 --frozen -o a.lock").code, 0);
  const json entry = json::parse(slurp(path("a.lock")))["entries"][0];
  EXPECT_EQ(entry["words"], "scaled");
  EXPECT_EQ(entry["entry"], "scaled_24");
  const CliRun fetched = cli("fetch --lock a.lock -o bundle");
  ASSERT_EQ(fetched.code, 0) << fetched.err;
  write("again.te", kScaled);
  const CliRun made = cli("export --threads 1 --lock a.lock -o out again.te");
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_TRUE(std::filesystem::exists(path("out/scaled_24.o")));
  const CliRun found = cli("best --frozen --threads 1 --json again.te");
  EXPECT_EQ(found.code, 0) << found.err;
}

TEST_F(LockFileTest, KnowsConstAndWinograd) {
  constexpr char kConv[] = "conv2d N=1 H=8 W=8 CI=8 CO=8 R=3 S=3 pad=1";
  const std::string text = lock_of(std::string(kWords) + " --const B --entry packed\n" + kWords +
                                   "\n" + kConv + " --allow winograd --entry=wino\n" + kConv + "\n");
  const Lock lock = *parse_lock(text);
  ASSERT_EQ(lock.entries.size(), 4u);
  std::set<std::string> symbols, workloads;
  int winograd = 0;
  for (const LockEntry& entry : lock.entries) {
    symbols.insert(entry.entry);
    workloads.insert(entry.key.workload);
    winograd += entry.key.objective == "time+winograd";
  }
  EXPECT_EQ(symbols, (std::set<std::string>{"packed", "matmul", "wino", "conv2d"}));
  EXPECT_EQ(workloads.size(), 3u);
  EXPECT_EQ(winograd, 1);
  ASSERT_EQ(cli("fetch --lock a.lock -o bundle").code, 0);
  const CliRun packed =
      cli(std::string("export --threads 1 --locked bundle --const B -o out ") + kWords);
  ASSERT_EQ(packed.code, 0) << packed.err;
  EXPECT_TRUE(std::filesystem::exists(path("out/packed.o")));
  const CliRun wino =
      cli(std::string("export --threads 1 --lock a.lock --allow winograd -o out ") + kConv);
  ASSERT_EQ(wino.code, 0) << wino.err;
  EXPECT_TRUE(std::filesystem::exists(path("out/wino.o")));
}

TEST_F(LockFileTest, SymbolsAreUniqueAndStay) {
  lock_of("matmul M=8 N=8 K=8\nmatmul M=16 N=8 K=8\n");
  const auto symbols = [&] {
    std::map<std::string, std::string> by_words;
    const Lock lock = *parse_lock(slurp(path("a.lock")));
    for (const LockEntry& entry : lock.entries) {
      by_words[entry.words] = entry.entry;
    }
    return by_words;
  };
  const auto first = symbols();
  EXPECT_EQ(first.at("matmul M=8 N=8 K=8"), "matmul");
  EXPECT_TRUE(first.at("matmul M=16 N=8 K=8").starts_with("matmul_")) << first.begin()->second;
  lock_of("matmul M=24 N=8 K=8\nmatmul M=16 N=8 K=8\nmatmul M=8 N=8 K=8\n");
  const auto second = symbols();
  for (const auto& [words, symbol] : first) EXPECT_EQ(second.at(words), symbol);
  write("requests.txt", "matmul M=8 N=8 K=8 --entry a\nmatmul M=16 N=8 K=8 --entry a\n");
  const CliRun clash = cli("lock requests.txt --threads 1 -o b.lock");
  EXPECT_EQ(clash.code, 1);
  EXPECT_TRUE(contains(clash.err, "another kernel is called 'a'")) << clash.err;
  write("requests.txt", "matmul M=8 N=8 K=8 --entry 8a\n");
  EXPECT_TRUE(contains(cli("lock requests.txt --threads 1 -o b.lock").err, "no identifier"));
}

TEST_F(LockFileTest, ReadsVersionOne) {
  json old = json::parse(lock_of(kWords));
  old["loopwright_lock"] = 1;
  old.erase("targets");
  for (const char* field : {"entry", "program", "trace"}) old["entries"][0].erase(field);
  old["entries"][0]["files"] = {{"matmul.o", std::string(64, 'd')}, {"matmul.h", std::string(64, 'e')}};
  write("old.lock", old.dump());
  const CliRun fetched = cli("fetch --lock old.lock -o bundle");
  ASSERT_EQ(fetched.code, 0) << fetched.err;
  // The bundle is of version 2, and whole: its own lock needs nothing.
  const Lock bundle = *parse_lock(slurp(path("bundle/bundle.json")));
  EXPECT_TRUE(bundle.entries[0].is_whole());
  EXPECT_EQ(cli(std::string("export --threads 1 --locked bundle -o out ") + kWords).code, 0);
  const CliRun stale =
      cli(std::string("export --threads 1 --locked bundle --lock old.lock -o out2 ") + kWords);
  EXPECT_EQ(stale.code, 5);
  EXPECT_TRUE(contains(stale.err, "version 1, run `loopwright lock`")) << stale.err;
  const CliRun alone = cli(std::string("export --threads 1 --lock old.lock -o out3 ") + kWords);
  EXPECT_EQ(alone.code, 1);
  EXPECT_TRUE(contains(alone.err, "version 1, without traces")) << alone.err;
  old["entries"][0]["kernel"] = std::string(64, 'f');
  write("old.lock", old.dump());
  EXPECT_EQ(cli("fetch --lock old.lock -o other").code, 5);
}

TEST_F(LockFileTest, WhatWasEditedIsSaid) {
  const json good = json::parse(lock_of(kWords));
  const auto said = [&](const std::function<void(json*)>& edit) {
    json bad = good;
    edit(&bad);
    return std::string(parse_lock(bad.dump()).status().message());
  };
  ASSERT_TRUE(parse_lock(good.dump()).ok());
  const auto entry = [](json* lock) -> json& { return (*lock)["entries"][0]; };
  EXPECT_TRUE(contains(said([&](json* l) { entry(l)["program"] = kScaled; }),
                       "the program is not that of the key"));
  EXPECT_TRUE(contains(said([&](json* l) { entry(l)["program"] = "op f(\n"; }),
                       "the program is not that of the key"));
  EXPECT_TRUE(contains(said([&](json* l) { entry(l)["trace"] = ""; }),
                       "the trace is not that of the record"));
  EXPECT_TRUE(contains(said([&](json* l) { entry(l)["entry"] = "no name"; }), "no identifier"));
  EXPECT_TRUE(contains(said([&](json* l) { entry(l).erase("trace"); }), "no trace"));
  EXPECT_TRUE(contains(said([&](json* l) { l->erase("targets"); }), "no targets"));
  EXPECT_TRUE(contains(said([&](json* l) { (*l)["targets"] = json::object(); }),
                       "is not among its targets"));
  EXPECT_TRUE(contains(said([&](json* l) {
                         (*l)["targets"].begin().value()["name"] = "another";
                       }),
                       "another than its id says"));
  EXPECT_TRUE(contains(said([&](json* l) { (*l)["entries"].push_back(entry(l)); }),
                       "two entries are called"));
  EXPECT_TRUE(contains(said([](json* l) { (*l)["loopwright_lock"] = 3; }),
                       "version 3, this program reads 1 and 2"));
  // An object that is not what the lock says: the bundle is not made.
  json other = good;
  other["entries"][0]["files"]["matmul.o"] = std::string(64, 'd');
  write("other.lock", other.dump());
  EXPECT_EQ(cli("fetch --lock other.lock -o bundle").code, 5);
  EXPECT_EQ(cli(std::string("export --threads 1 --lock other.lock -o out ") + kWords).code, 5);
  EXPECT_FALSE(std::filesystem::exists(path("out/matmul.o")));
}

TEST(LockText, RefusesWhatIsNone) {
  for (const char* text :
       {"", "[]", "{}", "{\"loopwright_lock\":2,\"entries\":[]}",
        "{\"loopwright_lock\":1,\"entries\":[{}]}", "{\"loopwright_lock\":1,\"entries\":[7]}"}) {
    EXPECT_FALSE(parse_lock(text).ok()) << text;
  }
  const json entry = {{"words", kWords},
                      {"key",
                       {{"workload", std::string(64, 'a')},
                        {"target", std::string(64, 'b')},
                        {"backend", "llvm 19.1.7 r1"},
                        {"threads", 1},
                        {"cache", "warm"},
                        {"objective", "time"}}},
                      {"record", std::string(64, 'c')},
                      {"files", {{"k.o", std::string(64, 'd')}}}};
  const auto with = [&](const json& one) {
    return parse_lock(json{{"loopwright_lock", 1}, {"entries", {one}}}.dump());
  };
  ASSERT_TRUE(with(entry).ok()) << with(entry).status();
  EXPECT_FALSE(with(entry)->entries[0].is_whole());
  for (const char* name : {"../k.o", "/k.o", "", ".hidden"}) {
    json bad = entry;
    bad["files"] = {{name, std::string(64, 'd')}};
    EXPECT_FALSE(with(bad).ok()) << name;
  }
}

TEST(Requests, LinesHaveWhatTuneTakes) {
  const auto cases = *parse_requests(
      "# comment\nmatmul M=8 --const B,bias --allow=bf16 --target x86_avx2 --threads 2\n\n"
      "softmax --entry s --const none  # more\n",
      "r.txt");
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_EQ(cases[0].words, (std::vector<std::string>{"matmul", "M=8"}));
  EXPECT_EQ(*cases[0].const_names, (std::vector<std::string>{"B", "bias"}));
  EXPECT_EQ(cases[0].allow, std::vector<std::string>{"bf16"});
  EXPECT_EQ(cases[0].target, "x86_avx2");
  EXPECT_EQ(cases[0].threads, 2);
  EXPECT_EQ(cases[1].entry, "s");
  EXPECT_TRUE(cases[1].const_names->empty());
  for (const char* bad : {"", "# none\n", "--entry x", "matmul --entry", "matmul --what 3",
                          "matmul --allow speed", "matmul --threads 0", "matmul --threads many"}) {
    const auto read = parse_requests(bad, "r.txt");
    EXPECT_FALSE(read.ok()) << bad;
    EXPECT_TRUE(contains(std::string(read.status().message()), "r.txt")) << read.status();
  }
}

}  // namespace
}  // namespace lw
