// Hermetic builds through the commands: lock, fetch, --frozen, --locked, and snapshots beside them.
#include "src/client/lock.h"

#include "src/api/words.h"
#include "src/base/hash.h"
#include "tests/support/cli_fixture.h"

namespace lw {
namespace {

using nlohmann::json;

constexpr char kLocked[] = "matmul M=24 N=40 K=16";
constexpr char kOther[] = "matmul M=24 N=40 K=32";

class LockTest : public CliTest {
 protected:
  void tune(const std::string& words, const std::string& budget = "--trials 2") {
    const CliRun run = cli("tune -q --seconds 20 --threads 1 " + budget + " " + words);
    ASSERT_EQ(run.code, 0) << run.err;
  }
};

TEST_F(LockTest, ALockedBuildReadsTheBundleAndNothingElse) {
  tune(kLocked);
  write("requests.txt", std::string(kLocked) + "  # the only one\n\n");
  ASSERT_EQ(cli("lock requests.txt --threads 1 --frozen -o a.lock").code, 0);
  ASSERT_EQ(cli("lock requests.txt --threads 1 -o b.lock").code, 0);
  EXPECT_EQ(slurp(path("a.lock")), slurp(path("b.lock")));
  CliRun run = cli("fetch --lock a.lock -o bundle --json");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.json()["kernels"], 1);

  // A better schedule changes no lock and no bundle.
  tune(kLocked, "--seed 9 --trials 8");
  run = cli("fetch --lock a.lock -o again");
  ASSERT_EQ(run.code, 0) << run.err;
  std::filesystem::remove(path("loopwright.db"));
  run = cli(std::string("export --locked bundle -o out --threads 1 --json ") + kLocked);
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.json()["outcome"], "exact");
  ASSERT_EQ(run.json()["files"].size(), 3u);
  const json document = run.json();
  for (const json& file : document["files"]) {
    EXPECT_TRUE(std::filesystem::exists(path(file))) << file;
  }
  EXPECT_EQ(cli(std::string("export --locked bundle -o out --threads 1 ") + kOther).code, 2);
  EXPECT_FALSE(std::filesystem::exists(path("loopwright.db")));

  // What was changed is refused.
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path("bundle"))) {
    if (entry.path().extension() == ".o") std::ofstream(entry.path(), std::ios::app) << "x";
  }
  EXPECT_EQ(cli(std::string("export --locked bundle -o out2 --threads 1 ") + kLocked).code, 5);
}

// Who can write the bundle replaces an object and its digest together: the lock file under version
// control is what counts.
TEST_F(LockTest, ABundleThatVouchesForItselfIsRefusedByTheLockFile) {
  tune(kLocked);
  write("requests.txt", kLocked);
  ASSERT_EQ(cli("lock requests.txt --threads 1 -o a.lock").code, 0);
  ASSERT_EQ(cli("fetch --lock a.lock -o bundle").code, 0);
  const std::string words = std::string("export --threads 1 --locked bundle ") + kLocked;
  ASSERT_EQ(cli(words + " -o out --lock a.lock").code, 0);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path("bundle"))) {
    if (entry.path().extension() != ".o") continue;
    const std::string good = slurp(entry.path().string()), bad = good + "x";
    std::string own = slurp(path("bundle/bundle.json"));
    own.replace(own.find(sha256(good)), 64, sha256(bad));
    write("bundle/bundle.json", own);
    std::ofstream(entry.path(), std::ios::binary) << bad;
  }
  const CliRun refused = cli(words + " -o out2 --lock a.lock");
  EXPECT_EQ(refused.code, 5);
  EXPECT_TRUE(contains(refused.err, "a.lock locks")) << refused.err;
  EXPECT_FALSE(std::filesystem::exists(path("out2/matmul.o")));
  const CliRun alone = cli(words + " -o out3");
  EXPECT_EQ(alone.code, 0) << alone.err;
  EXPECT_TRUE(contains(alone.err, "--lock FILE")) << alone.err;
  // The lock file alone makes the object again, and it is the good one.
  const CliRun made = cli(std::string("export --threads 1 --lock a.lock -o out4 ") + kLocked);
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(slurp(path("out4/matmul.o")), slurp(path("out/matmul.o")));
}

// By whoever can say so: the database, a file of it, a newer snapshot; by record and by kernel.
TEST_F(LockTest, WhatWasWithdrawnIsNeitherLockedNorFetchedNorTaken) {
  tune(kLocked);
  write("requests.txt", kLocked);
  ASSERT_EQ(cli("lock requests.txt --threads 1 -o a.lock").code, 0);
  ASSERT_EQ(cli("fetch --lock a.lock -o bundle").code, 0);
  ASSERT_EQ(cli("db snapshot -o old.lws").code, 0);
  const json locked = json::parse(slurp(path("a.lock")))["entries"][0];
  const std::string record = locked["record"], kernel = locked["kernel"];
  const std::string trace =
      json::parse(slurp(path("bundle/" + record.substr(0, 16) + "/record.json")))["trace"];
  const CliRun listed = cli("db ls --json");
  const CliRun shown = cli("db show --json " +
                           listed.json()[0]["canonical_sha256"].get<std::string>());
  std::string id;
  for (const json& m : shown.json()) {
    if (m["trace"] == trace) id = std::to_string(m["id"].get<int64_t>());
  }
  const CliRun out = cli("db withdraw --reason wrong --json " + id);
  ASSERT_EQ(out.code, 0) << out.err;
  EXPECT_EQ(out.json()["withdrawn"][0]["digest"], record);
  EXPECT_EQ(out.json()["withdrawn"][0]["kernel_digest"], kernel);
  write("withdrawn.json", cli("db withdrawn --json").out);
  ASSERT_EQ(cli("db snapshot -o new.lws").code, 0);

  const std::string take = std::string("export --threads 1 --locked bundle -o out ") + kLocked;
  CliRun taken = cli(take);
  EXPECT_EQ(taken.code, 0) << taken.err;   // nobody was asked
  EXPECT_TRUE(contains(taken.err, "nobody was asked")) << taken.err;
  const auto expect_refused = [&](const std::string& words) {
    const CliRun run = cli(words);
    EXPECT_EQ(run.code, 1) << words << run.err;
    EXPECT_TRUE(contains(run.err, "was withdrawn by db/")) << words << run.err;
    EXPECT_TRUE(contains(run.err, ": wrong; run `loopwright lock` again")) << words << run.err;
  };
  expect_refused(take + " --withdrawn withdrawn.json");
  expect_refused(take + " --lock a.lock --withdrawn withdrawn.json");
  expect_refused("fetch --lock a.lock -o again");
  expect_refused("fetch --lock a.lock -o again --snapshot new.lws");
  expect_refused("fetch --lock a.lock -o again --snapshot old.lws --withdrawn withdrawn.json");
  expect_refused("lock requests.txt --threads 1 --snapshot old.lws -o b.lock "
                 "--withdrawn withdrawn.json");
  EXPECT_FALSE(std::filesystem::exists(path("b.lock")));
  EXPECT_FALSE(std::filesystem::exists(path("again/bundle.json")));

  // Another record of that kernel: what lists the kernel has it, and an older lock file names none.
  json by_kernel = json::parse(slurp(path("withdrawn.json")));
  by_kernel["withdrawn"][0]["digest"] = sha256("another trace");
  write("kernel.json", by_kernel.dump());
  expect_refused(take + " --withdrawn kernel.json");
  json old = json::parse(slurp(path("a.lock")));
  old["entries"][0].erase("kernel");
  write("old.lock", old.dump());
  expect_refused("fetch --lock old.lock -o again --snapshot old.lws --withdrawn kernel.json");

  EXPECT_EQ(cli(take + " --withdrawn a.lock").code, 1) << "no such list";
  EXPECT_EQ(cli(take + " --server 127.0.0.1:1").code, 5) << "who is asked must answer";
  ASSERT_EQ(cli("db restore-record " + record.substr(0, 12)).code, 0);
  EXPECT_EQ(cli("fetch --lock a.lock -o again").code, 0);
}

// Two checkouts of one project lock alike, and each finds its files from anywhere.
TEST_F(LockTest, ALockFileSaysWhereFilesAreFromItsFolder) {
  for (const char* checkout : {"one", "two"}) {
    std::filesystem::create_directories(path(std::string(checkout) + "/ops"));
    write(std::string(checkout) + "/ops/my.te",
          "op mine(M = 24) {\n  in A: f32[M]\n  out B[i: M] = A[i] + A[i]\n}\n");
    const std::string ops = std::string(checkout) + "/ops/my.te:mine";
    tune(ops);
    write(std::string(checkout) + "/requests.txt", ops);
    const CliRun run = cli(std::string("lock --threads 1 --frozen ") + checkout +
                           "/requests.txt -o " + checkout + "/kernels.lock");
    ASSERT_EQ(run.code, 0) << run.err;
  }
  const std::string lock = slurp(path("one/kernels.lock"));
  EXPECT_EQ(lock, slurp(path("two/kernels.lock")));
  EXPECT_FALSE(contains(lock, folder_)) << lock;
  EXPECT_EQ(json::parse(lock)["entries"][0]["words"], "ops/my.te:mine");
  std::filesystem::remove_all(path("two"));
  const CliRun run = cli("fetch --lock one/kernels.lock -o deep/down/bundle");
  ASSERT_EQ(run.code, 0) << run.err;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path("deep"))) {
    if (!entry.is_regular_file()) continue;
    EXPECT_FALSE(contains(slurp(entry.path().string()), folder_)) << entry.path();
  }
  const CliRun taken =
      cli("export --threads 1 --locked deep/down/bundle --lock one/kernels.lock -o out "
          "one/ops/my.te:mine");
  EXPECT_EQ(taken.code, 0) << taken.err;
}

TEST(Words, NameFilesFromAFolder) {
  const std::string here = std::filesystem::current_path().string();
  EXPECT_EQ(absolute_words("a/b.te:op M=4", "/x/y"), "/x/y/a/b.te:op M=4");
  EXPECT_EQ(absolute_words("../b.te M=4", "/x/y"), "/x/b.te M=4");
  EXPECT_EQ(absolute_words("/a/b.te", "/x/y"), "/a/b.te");
  EXPECT_EQ(absolute_words("b.te", ""), here + "/b.te");
  EXPECT_EQ(relative_words("/x/y/a/b.te:op M=4", "/x/y/"), "a/b.te:op M=4");
  EXPECT_EQ(relative_words("/x/b.te", "/x/y"), "../b.te");
  EXPECT_EQ(relative_words("b.te", ""), "b.te");
  for (const char* words : {"matmul M=4", "", "a.text M=4", "matmul M=a.te"}) {
    EXPECT_EQ(absolute_words(words, "/x"), words);
    EXPECT_EQ(relative_words(words, "/x"), words);
  }
}

TEST_F(LockTest, AFrozenMissPrintsARequestThatTuneTakes) {
  tune(kLocked);
  write("requests.txt", std::string(kLocked) + "\n" + kOther + "\n");
  const CliRun miss = cli("lock requests.txt --threads 1 --frozen -o a.lock");
  ASSERT_EQ(miss.code, 2) << miss.err;
  EXPECT_FALSE(std::filesystem::exists(path("a.lock")));
  ASSERT_EQ(miss.json()["workloads"].size(), 1u);
  write("missing.json", miss.out);
  CliRun run = cli("tune --json -q --trials 2 --seconds 20 --threads 1 --suite missing.json");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.json()["workloads"][0]["workload"], kOther);
  run = cli("lock requests.txt --threads 1 --frozen -o a.lock --json");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.json()["locked"], 2);
  // The request of a single command, too.
  const CliRun best = cli("best --frozen --threads 1 matmul M=5 N=5 K=5");
  EXPECT_EQ(best.code, 2);
  EXPECT_EQ(best.json()["workloads"][0]["words"], "matmul M=5 N=5 K=5");
}

TEST_F(LockTest, ASnapshotServesWithoutTheDatabase) {
  tune(kLocked);
  CliRun run = cli("db snapshot -o a.lws --json");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.json()["records"], 1);
  std::filesystem::remove(path("loopwright.db"));
  run = cli(std::string("best --json --threads 1 --snapshot a.lws ") + kLocked);
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.json()["outcome"], "exact");
  run = cli(std::string("best --json --threads 1 --snapshot a.lws ") + kOther);
  EXPECT_EQ(run.json()["outcome"], "nearest-shape");
  EXPECT_GT(run.json()["distance"], 0.5);
  EXPECT_GE(run.json()["predicted_loss"], 0);
  write("requests.txt", kLocked);
  EXPECT_EQ(cli("lock requests.txt --threads 1 --snapshot a.lws -o a.lock").code, 0);
  EXPECT_EQ(cli("fetch --lock a.lock --snapshot a.lws -o bundle").code, 0);
  write("bad.lws", slurp(path("a.lws")).substr(0, 300));
  EXPECT_EQ(cli(std::string("best --snapshot bad.lws ") + kLocked).code, 5);
}

TEST_F(LockTest, RunBenchAndExportTakeTheRungThatBestNames) {
  tune(kLocked);
  const CliRun best = cli(std::string("best --threads 1 --json ") + kOther);
  EXPECT_EQ(best.json()["outcome"], "nearest-shape");
  CliRun run = cli(std::string("export --threads 1 --json -o out ") + kOther);
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.json()["outcome"], "nearest-shape");
  EXPECT_TRUE(contains(run.err, "nearest-shape")) << run.err;
  EXPECT_EQ(nlohmann::json::parse(slurp(path("out/matmul.json")))["trace"], best.json()["trace"]);
  run = cli(std::string("bench --threads 1 --json --seconds 0.05 ") + kOther);
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.json()["ours"]["outcome"], "nearest-shape");
  EXPECT_TRUE(contains(run.err, "nearest-shape")) << run.err;
}

}  // namespace
}  // namespace lw
