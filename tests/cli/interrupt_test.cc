// Ctrl-C and kill -9 in each phase of a tune: building the space, drawing, scoring, preparing,
// compiling, measuring. It ends soon, with exit code 4, and what was stored stays.
#include <algorithm>
#include <chrono>
#include <thread>

#include "src/base/rng.h"
#include "tests/support/cli_fixture.h"

namespace lw {
namespace {

// Products of matrices, each read by a map and by the map after that: before the first schedule is
// measured, seconds of building and drawing pass.
std::string blocks(int count) {
  std::string text = "op blocks(N = 64) {\n  in A0: f32[N, N]\n";
  for (int b = 0; b < count; ++b) {
    const std::string n = std::to_string(b), next = std::to_string(b + 1);
    text += "  C" + n + "[i: N, j: N] = sum[k: N](A" + n + "[i, k] * A" + n + "[k, j])\n  ";
    if (b + 1 == count) text += "out ";
    text += "A" + next + "[i: N, j: N] = max(C" + n + "[i, j], 0) + A" + n + "[i, j]\n";
  }
  return text + "}\n";
}

class InterruptTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    write("few.te", blocks(2));
    write("many.te", blocks(24));
  }
  // What it ended with, and the seconds that took; `after_s` from its start.
  std::pair<CliRun, double> signalled(const std::string& file, int signal, double after_s) {
    const pid_t child =
        start(command({"tune", file, "--threads", "1", "--trials", "100000", "--seconds", "120",
                       "-v", "--json"}));
    std::this_thread::sleep_for(std::chrono::duration<double>(after_s));
    const auto begun = std::chrono::steady_clock::now();
    kill(child, signal);
    CliRun run = finish(child);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begun;
    return {run, taken.count()};
  }
};

// The bar is a second; sanitizers and a busy machine are given more.
constexpr double kLongest = 8;

TEST_F(InterruptTest, AnInterruptedTuneEndsSoonInAnyPhase) {
  Rng rng(3);
  double longest = 0;
  for (int i = 0; i < 10; ++i) {
    for (const char* file : {"few.te", "many.te"}) {
      const int signal = i % 3 == 2 ? SIGTERM : SIGINT;
      // From when it listens on: before that the signal ends it as any program.
      const auto [run, taken] = signalled(file, signal, 0.15 + 2.5 * rng.uniform() * rng.uniform());
      EXPECT_TRUE(run.code == 4 || run.code == 128 + signal) << run.code << run.err;
      EXPECT_EQ(run.err.find("ended at once"), std::string::npos) << run.err;
      if (run.code == 4) EXPECT_EQ(run.json()["interrupted"], true);
      longest = std::max(longest, taken);
      EXPECT_TRUE(!std::filesystem::exists(path("loopwright.db")) || cli("db check").code == 0);
      // The next begins anew: one that resumes may be over before its signal comes.
      for (const char* part : {"", "-wal", "-shm"})
        std::filesystem::remove(path(std::string("loopwright.db") + part));
    }
  }
  EXPECT_LT(longest, kLongest);
  std::printf("longest: %.3f s\n", longest);
}

TEST_F(InterruptTest, AKilledTuneLeavesASoundDatabaseInAnyPhase) {
  Rng rng(4);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(signalled("many.te", SIGKILL, 2 * rng.uniform()).first.code, 128 + SIGKILL);
  }
  write("one.te", blocks(1));
  EXPECT_EQ(cli("tune one.te --threads 1 --trials 4").code, 0);
  EXPECT_EQ(cli("db check").code, 0);
}

// Its seconds are over long before the first schedule of such a program was drawn.
TEST_F(InterruptTest, TheSecondsEndATuneInAnyPhase) {
  write("slow.te", blocks(60));
  const auto begun = std::chrono::steady_clock::now();
  const CliRun run = cli("tune slow.te --threads 1 --seconds 0.3 --json");
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begun;
  EXPECT_LT(taken.count(), kLongest);
  EXPECT_EQ(run.code, 3) << run.err;
  EXPECT_NE(run.out.find("--seconds gives more"), std::string::npos) << run.out;
}

}  // namespace
}  // namespace lw
