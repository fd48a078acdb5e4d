// kill -9 at any moment: what progress has shown is in the database, the file is sound, and the
// same command goes on from there and finishes. 50 moments, drawn from a seed; where a search is over
// before, the next shape's goes on.
#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "src/base/rng.h"
#include "tests/support/cli_fixture.h"
#include "tests/support/program.h"

namespace lw {
namespace {

constexpr int kKills = 50;
constexpr int kTrials = 100000;            // never reached while killing

std::string shape_words(int m) { return absl::StrCat("M=", m, " N=48 K=32 --threads 1"); }

std::vector<std::string> tune_words(int m, int trials) {
  return {"tune", "matmul", absl::StrCat("M=", m), "N=48", "K=32", "--threads", "1", "--seconds",
          "60", "-v", "--trials", std::to_string(trials)};
}

// Ids of the measurements that complete lines of the progress have acknowledged.
std::set<int64_t> acknowledged(const std::string& progress) {
  std::set<int64_t> ids;
  for (size_t at = 0, end; (end = progress.find('\n', at)) != std::string::npos; at = end + 1) {
    if (progress.compare(at, 7, "stored ") == 0) ids.insert(std::atoll(progress.c_str() + at + 7));
  }
  return ids;
}

TEST_F(CliTest, KilledTuneLosesNothingAcknowledged) {
  Rng rng(20240601);
  std::set<int64_t> shown;
  // Lives reach well past the first trials, however slow this build and this machine are.
  const auto begin = std::chrono::steady_clock::now();
  int m = 32;
  ASSERT_EQ(program(command(tune_words(m, 4))).code, 0);
  const std::chrono::duration<double> few_trials = std::chrono::steady_clock::now() - begin;
  const double longest_life = std::max(1.0, 2 * few_trials.count());
  int kills = 0;
  const int wanted = rounds_of(kKills);
  for (int i = 0; kills < wanted; ++i) {
    ASSERT_LT(i, 2 * wanted) << "most searches end before they are killed";
    const pid_t child = start(command(tune_words(m, kTrials)));
    std::this_thread::sleep_for(std::chrono::duration<double>(0.02 + rng.uniform() * longest_life));
    kill(child, SIGKILL);
    const CliRun run = finish(child);
    // A search that goes on from what many lives have stored may be over before it is killed.
    if (run.code == 0) m += 16;
    else ASSERT_EQ(run.code, 128 + SIGKILL) << i << run.err;
    kills += run.code != 0;
    const std::set<int64_t> now = acknowledged(run.err);
    shown.insert(now.begin(), now.end());
  }
  ASSERT_FALSE(shown.empty()) << "no measurement was ever shown: the lives are too short";
  EXPECT_EQ(cli("db check").code, 0);
  const auto keys = cli("db ls --json").json();
  ASSERT_GE(keys.size(), 1u);
  std::set<int64_t> stored;
  for (const auto& key : keys) {
    const auto rows = cli("db show --json " + key["canonical_sha256"].get<std::string>()).json();
    for (const auto& row : rows) stored.insert(row["id"].get<int64_t>());
  }
  for (int64_t id : shown) EXPECT_EQ(stored.count(id), 1u) << "measurement " << id << " is lost";

  const CliRun rest = program(command(tune_words(m, static_cast<int>(stored.size()) + 10)));
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_EQ(cli("best --frozen matmul " + shape_words(m)).code, 0);
}

}  // namespace
}  // namespace lw
