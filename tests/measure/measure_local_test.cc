// The local Measurer of CPUs' kernels against those that are wrong and wild as only machine code can
// be, and its processes. (What all devices promise: device_conformance_test.cc.)
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "tests/measure/measurer_fixture.h"
#include "tests/support/program.h"

namespace lw {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class LocalTest : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Measurer> make(const LocalOptions& options = quick()) {
    absl::StatusOr<std::unique_ptr<Measurer>> m =
        make_local_measurer(program(), target(GetParam()), options);
    CHECK(m.ok());
    return *std::move(m);
  }
  Outcome one(Measurer& measurer, const std::string& text) {
    measurer.submit({candidate(7, text)});
    return collect(measurer, 1)[7];
  }
  // Accesses that are wrong whatever the data: the interpreter's backend refuses to build them, the
  // LLVM backend trusts the lowering.
  bool refuses() const { return GetParam() == "interpreter"; }
  void expect_wild(const Outcome& outcome, Verdict verdict, const std::string& detail) {
    EXPECT_EQ(outcome.verdict, refuses() ? Verdict::kBuildError : verdict) << outcome.detail;
    if (!refuses()) EXPECT_THAT(outcome.detail, HasSubstr(detail));
  }
  // The bad one, then the good one on the same measurer.
  Outcome bad_then_good(const std::string& text) {
    std::unique_ptr<Measurer> measurer = make();
    const Outcome bad = one(*measurer, text);
    const Outcome good = one(*measurer, kGood);
    EXPECT_EQ(good.verdict, Verdict::kOk) << good.detail;
    EXPECT_TRUE(good.verified);
    EXPECT_FALSE(bad.verified);
    return bad;
  }
};

TEST_P(LocalTest, SaysWhatHeldWhileItMeasured) {
  std::unique_ptr<Measurer> measurer = make();
  const Outcome outcome = one(*measurer, kGood);
  EXPECT_GT(outcome.build_s, 0);
  EXPECT_THAT(outcome.environment, HasSubstr("\"threads\":1"));
}

TEST_P(LocalTest, WithoutReferenceKernelTheInterpreterIsTheSecondOracle) {
  LocalOptions options = quick();
  options.reference = nullptr;
  std::unique_ptr<Measurer> measurer = make(options);
  EXPECT_TRUE(one(*measurer, kGood).verified);
}

TEST_P(LocalTest, WrongReferenceIsNoticedAndNotTrusted) {
  LocalOptions options = quick();
  options.reference = kernel(replaced("r0 = const 0", "r0 = const 1"));
  std::unique_ptr<Measurer> measurer = make(options);
  const Outcome outcome = one(*measurer, kGood);
  EXPECT_TRUE(outcome.verified) << outcome.detail;
  EXPECT_THAT(outcome.environment, HasSubstr("disagrees with the interpreter"));
}

TEST_P(LocalTest, SwappedTailMaskIsCaught) {
  const Outcome bad = bad_then_good(replaced("lanemask 7 stride -1", "lanemask 6 stride -1"));
  EXPECT_EQ(bad.verdict, Verdict::kWrongResult) << bad.detail;
  // The other half of the lanes: the last row then ends behind the tensor.
  const Outcome other = bad_then_good(replaced("lanemask 7 stride -1", "lanemask -8 stride 1"));
  expect_wild(other, Verdict::kWrongResult, "D[0, 16] is not written");
}

TEST_P(LocalTest, ReadingItsOwnOutputIsWrong) {
  const Outcome bad = bad_then_good(replaced("r0 = const 0", "r0 = load D[24*v0] stride 1"));
  EXPECT_EQ(bad.verdict, Verdict::kWrongResult) << bad.detail;
}

TEST_P(LocalTest, WriteIntoInputIsACrashThatNamesTheInput) {
  const Outcome bad = bad_then_good(first("r0 = const 0\nstore B[32] = r0 stride 1\n"));
  expect_wild(bad, Verdict::kCrash, " of input B");
  // Which of the vector's 96 bytes are stored first is the code generator's choice.
  if (!refuses()) {
    EXPECT_THAT(bad.detail, ContainsRegex("SIGSEGV: write at byte (128|1[3-9][0-9]|2[01][0-9]) of"));
  }
}

TEST_P(LocalTest, WritePastTheEndIsACrashThatNamesTheOutput) {
  const Outcome bad = bad_then_good(first("r0 = const 0\nstore D[2048] = r0 stride 1\n"));
  expect_wild(bad, Verdict::kCrash, "past the end of output D");
}

TEST_P(LocalTest, WriteJustBeforeTheOutputIsACrash) {
  const Outcome bad = bad_then_good(first("r0 = const 0\nstore D[-16] = r0 stride 1\n"));
  expect_wild(bad, Verdict::kCrash, "before output D");
}

// Behind the workspace of a timed run there is room for idle lanes, and then nothing.
TEST_P(LocalTest, WritePastTheWorkspaceIsSeen) {
  const Outcome bad = bad_then_good(first("r0 = const 0\nstore W[16] = r0 stride 1\n"));
  expect_wild(bad, Verdict::kWrongResult, "wrote outside its workspace");
}

TEST_P(LocalTest, WriteFarPastTheWorkspaceIsACrash) {
  const Outcome bad = bad_then_good(first("r0 = const 0\nstore W[2064] = r0 stride 1\n"));
  expect_wild(bad, Verdict::kCrash, "past the end of the workspace");
}

TEST_P(LocalTest, ReadFromNowhereIsACrash) {
  const Outcome bad =
      bad_then_good(first("r0 = load A[70368744177664] stride 1\nstore D[0] = r0 stride 1\n"));
  expect_wild(bad, Verdict::kCrash, "SIGSEGV");
}

TEST_P(LocalTest, ColdCachesAreAnotherRegime) {
  LocalOptions options = quick();
  options.cache = Cache::kCold;
  std::unique_ptr<Measurer> measurer = make(options);
  const Outcome outcome = one(*measurer, kGood);
  EXPECT_EQ(outcome.verdict, Verdict::kOk) << outcome.detail;
  EXPECT_EQ(outcome.inner, 1);
  EXPECT_THAT(outcome.environment, HasSubstr("\"cache\":\"cold\""));
}

TEST_P(LocalTest, ThreadsShareTheParallelLoop) {
  LocalOptions options = quick();
  options.threads = 2;
  std::unique_ptr<Measurer> measurer = make(options);
  const std::string parallel = replaced("for v0 < 20 {", "for v0 < 20 parallel {");
  // The mask crosses into the parallel loop, which registers may not: define it inside.
  std::string text = parallel;
  const std::string mask = "  r3 = lanemask 7 stride -1\n";
  text.erase(text.find(mask), mask.size());
  text.insert(text.find("parallel {\n") + 11, mask);
  // Where others use the processors a time may not add up: that is nobody's fault, and asked again.
  int left = 12;
  for (int round = 0; round < 10 && left > 0; ++round) {
    std::vector<Candidate> batch;
    for (int i = 0; i < left; ++i) batch.push_back(candidate(100 * round + i, text));
    measurer->submit(batch);
    for (const auto& [ticket, outcome] : collect(*measurer, left)) {
      if (is_retried(outcome.verdict)) continue;
      EXPECT_EQ(outcome.verdict, Verdict::kOk) << outcome.detail;
      EXPECT_TRUE(outcome.verified);
      --left;
    }
  }
  EXPECT_EQ(left, 0);
}

INSTANTIATE_TEST_SUITE_P(Backends, LocalTest, ::testing::Values("interpreter", "llvm"),
                         [](const auto& info) { return info.param; });

// ---- processes ----

bool runs(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string id, name, state;
  return file >> id >> name >> state && state != "Z";
}

TEST(Processes, NoneOutlivesAKilledTuner) {
  const pid_t tuner = fork();
  if (tuner == 0) {
    absl::StatusOr<std::unique_ptr<Measurer>> m =
        make_local_measurer(program(), target("interpreter"), quick());
    CHECK(m.ok());
    for (int64_t i = 0;; ++i) {
      (*m)->submit({candidate(i, kGood)});
      (*m)->poll(10);
    }
  }
  std::vector<pid_t> all;
  ASSERT_TRUE(eventually([&] {
    all = children_of(tuner);
    if (all.size() != 1) return false;
    const std::vector<pid_t> workers = children_of(all[0]);
    all.insert(all.end(), workers.begin(), workers.end());
    return workers.size() >= 2;
  }));
  kill(tuner, SIGKILL);
  waitpid(tuner, nullptr, 0);
  for (pid_t pid : all) EXPECT_TRUE(eventually([&] { return !runs(pid); })) << pid;
}

}  // namespace
}  // namespace lw
