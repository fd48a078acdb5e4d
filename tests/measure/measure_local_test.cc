// The local Measurer against kernels that are right, wrong and wild: each failure has its own
// verdict and costs one candidate; the next one works. Nothing here asserts a time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <map>
#include <thread>

#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/expr/expr.h"
#include "src/expr/language/text.h"
#include "src/measure/local.h"
#include "tests/support/program.h"

namespace lw {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr char kMatmul[] = R"(
op mm(M = 20, N = 24, K = 16) {
  in A: f32[M, K]
  in B: f32[K, N] const
  out D[i: M, j: N] = sum[k: K](A[i, k] * B[k, j])
}
)";

// Rows one by one, columns as a whole vector of 16 and a masked one of 8.
constexpr char kGood[] = R"(kernel mm arguments=3 variables=2 workspace=64 private=0 packed=0
buffer A f32 320 argument 0
buffer B f32 384 argument 1
buffer D f32 480 argument 2 written
buffer W f32 16 workspace 0
registers f32x16 3
registers boolx16 1
body {
  r3 = lanemask 7 stride -1
  for v0 < 20 {
    r0 = const 0
    for v1 < 16 {
      r1 = load A[16*v0 + v1] stride 0
      r2 = load B[24*v1] stride 1
      r0 = fma r1, r2, r0
    }
    store D[24*v0] = r0 stride 1
    r0 = const 0
    for v1 < 16 {
      r1 = load A[16*v0 + v1] stride 0
      r2 = load B[24*v1 + 16] stride 1 mask r3
      r0 = fma r1, r2, r0
    }
    store D[24*v0 + 16] = r0 stride 1 mask r3
  }
}
)";

std::string replaced(const std::string& from, const std::string& to) {
  std::string text = kGood;
  const size_t at = text.find(from);
  CHECK(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

// `statements` before all others.
std::string first(const std::string& statements) {
  return replaced("body {\n", "body {\n" + statements);
}

std::shared_ptr<const Kernel> kernel(const std::string& text) {
  absl::StatusOr<Kernel> parsed = parse_kernel(text);
  CHECK(parsed.ok());
  return std::make_shared<const Kernel>(*std::move(parsed));
}

Program program(const char* text = kMatmul) {
  absl::StatusOr<Module> module = parse_module(text, "test.te");
  CHECK(module.ok());
  absl::StatusOr<Program> p = instantiate(module->ops[0], {});
  CHECK(p.ok());
  return *p;
}

Target target(const std::string& family) {
  Target t = find_target("host").value();
  if (family == "interpreter") t.architecture = family;
  return t;
}

LocalOptions quick() {
  LocalOptions options;
  options.run_timeout_s = 0.5;
  options.reference = kernel(kGood);
  return options;
}

std::map<int64_t, Outcome> collect(Measurer& measurer, size_t count) {
  std::map<int64_t, Outcome> outcomes;
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (outcomes.size() < count && std::chrono::steady_clock::now() < give_up) {
    for (Outcome& outcome : measurer.poll(1)) {
      EXPECT_EQ(outcomes.count(outcome.ticket), 0u) << "reported twice";
      outcomes[outcome.ticket] = std::move(outcome);
    }
  }
  EXPECT_EQ(outcomes.size(), count);
  return outcomes;
}

Candidate candidate(int64_t ticket, const std::string& text) {
  Candidate c;
  c.ticket = ticket;
  c.kernel = kernel(text);
  c.verify = true;
  return c;
}

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

TEST_P(LocalTest, GoodKernelIsTimedAndVerified) {
  std::unique_ptr<Measurer> measurer = make();
  const Outcome outcome = one(*measurer, kGood);
  EXPECT_EQ(outcome.verdict, Verdict::kOk) << outcome.detail;
  EXPECT_TRUE(outcome.verified);
  EXPECT_GT(outcome.time_us, 0);
  EXPECT_LE(outcome.ci_low_us, outcome.time_us);
  EXPECT_GE(outcome.ci_high_us, outcome.time_us);
  EXPECT_LE(outcome.max_rel_error, 1);
  EXPECT_GT(outcome.build_s, 0);
  EXPECT_THAT(outcome.environment, HasSubstr("\"threads\":1"));
  EXPECT_THAT(outcome.environment, ::testing::Not(HasSubstr("oracle")));
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

TEST_P(LocalTest, DroppedStoreIsWrong) {
  const Outcome bad =
      bad_then_good(replaced("    store D[24*v0 + 16] = r0 stride 1 mask r3\n",
                             "    if v0 - 1 >= 0 {\n"
                             "    store D[24*v0 + 16] = r0 stride 1 mask r3\n    }\n"));
  EXPECT_EQ(bad.verdict, Verdict::kWrongResult);
  EXPECT_THAT(bad.detail, HasSubstr("D[0, "));
  EXPECT_THAT(bad.detail, HasSubstr("not written"));
}

TEST_P(LocalTest, SwappedTailMaskIsCaught) {
  const Outcome bad = bad_then_good(replaced("lanemask 7 stride -1", "lanemask 6 stride -1"));
  EXPECT_EQ(bad.verdict, Verdict::kWrongResult) << bad.detail;
  // The other half of the lanes: the last row then ends behind the tensor.
  const Outcome other = bad_then_good(replaced("lanemask 7 stride -1", "lanemask -8 stride 1"));
  expect_wild(other, Verdict::kWrongResult, "D[0, 16] is not written");
}

TEST_P(LocalTest, OneLostTermIsWrong) {
  EXPECT_EQ(bad_then_good(replaced("for v1 < 16", "for v1 < 15")).verdict, Verdict::kWrongResult);
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

TEST_P(LocalTest, WriteJustBehindTheOutputIsNoticed) {
  // Inside its pages: no fault, but the poison there is gone.
  const Outcome bad = bad_then_good(first("r0 = const 0\nstore D[480] = r0 stride 1\n"));
  expect_wild(bad, Verdict::kWrongResult, "wrote beside output D");
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

TEST_P(LocalTest, EndlessLoopIsATimeout) {
  const Outcome bad =
      bad_then_good(first("for v0 < 9000000000000000 {\nr0 = load D[0] stride 1\n"
                          "r0 = add r0, r0\nstore D[0] = r0 stride 1\n}\n"));
  EXPECT_EQ(bad.verdict, Verdict::kTimeout) << bad.detail;
}

TEST_P(LocalTest, MemoryHogExceedsTheDevice) {
  const Outcome bad = bad_then_good(replaced("workspace=64", "workspace=70368744177664"));
  EXPECT_EQ(bad.verdict, Verdict::kDeviceLimit) << bad.detail;
}

TEST_P(LocalTest, KernelOfAnotherProgramIsABuildError) {
  Candidate other = candidate(1, kGood);
  Kernel k = *other.kernel;
  k.arguments = 4;
  other.kernel = std::make_shared<const Kernel>(k);
  std::unique_ptr<Measurer> measurer = make();
  measurer->submit({other});
  EXPECT_EQ(collect(*measurer, 1)[1].verdict, Verdict::kBuildError);
}

TEST_P(LocalTest, ManyCandidatesEachComeBackOnceThoughSomeAreWild) {
  std::unique_ptr<Measurer> measurer = make();
  std::vector<Candidate> batch;
  for (int i = 0; i < 24; ++i) {
    batch.push_back(candidate(i, i % 6 == 2   ? first("r0 = const 0\nstore B[0] = r0 stride 1\n")
                                 : i % 6 == 4 ? replaced("for v1 < 16", "for v1 < 15")
                                              : std::string(kGood)));
  }
  measurer->submit(batch);
  for (const auto& [ticket, outcome] : collect(*measurer, 24)) {
    const Verdict wild = refuses() ? Verdict::kBuildError : Verdict::kCrash;
    const Verdict expected = ticket % 6 == 2   ? wild
                             : ticket % 6 == 4 ? Verdict::kWrongResult
                                               : Verdict::kOk;
    EXPECT_EQ(outcome.verdict, expected) << ticket << ": " << outcome.detail;
  }
}

TEST_P(LocalTest, HopelessCandidateIsRacedOutUnverified) {
  std::unique_ptr<Measurer> measurer = make();
  Candidate slow = candidate(3, kGood);
  slow.incumbent_us = 1e-4;
  slow.verify = false;
  measurer->submit({slow});
  const Outcome outcome = collect(*measurer, 1)[3];
  EXPECT_EQ(outcome.verdict, Verdict::kOk) << outcome.detail;
  EXPECT_EQ(outcome.samples_us.size(), 1u);
  EXPECT_FALSE(outcome.verified);
}

TEST_P(LocalTest, InterleavedOutcomesAreInOrderAndSurviveACrash) {
  std::unique_ptr<Measurer> measurer = make();
  const std::string wild = first("r0 = const 0\nstore B[0] = r0 stride 1\n");
  const std::vector<Outcome> outcomes =
      measurer->interleave({candidate(5, kGood), candidate(6, wild), candidate(9, kGood)}, 4);
  ASSERT_EQ(outcomes.size(), 3u);
  EXPECT_EQ(outcomes[0].ticket, 5);
  EXPECT_EQ(outcomes[0].verdict, Verdict::kOk) << outcomes[0].detail;
  EXPECT_EQ(outcomes[0].samples_us.size(), 4u);
  EXPECT_TRUE(outcomes[0].verified);
  EXPECT_EQ(outcomes[1].ticket, 6);
  expect_wild(outcomes[1], Verdict::kCrash, "input B");
  EXPECT_EQ(outcomes[2].ticket, 9);
  EXPECT_EQ(outcomes[2].verdict, Verdict::kOk) << outcomes[2].detail;
}

TEST_P(LocalTest, CancelDropsWhatHasNotStarted) {
  std::unique_ptr<Measurer> measurer = make();
  std::vector<Candidate> batch;
  for (int i = 0; i < 200; ++i) batch.push_back(candidate(i, kGood));
  measurer->submit(batch);
  measurer->cancel();
  measurer->submit({candidate(1000, replaced("for v1 < 16", "for v1 < 15"))});
  // What had started before finishes.
  std::map<int64_t, Outcome> outcomes;
  ASSERT_TRUE(eventually([&] {
    for (Outcome& outcome : measurer->poll(0)) outcomes[outcome.ticket] = std::move(outcome);
    return outcomes.count(1000) > 0;
  }));
  EXPECT_EQ(outcomes[1000].verdict, Verdict::kWrongResult);
  EXPECT_LT(outcomes.size(), 200u);
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

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> children;
  std::ifstream file("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children");
  for (pid_t child; file >> child;) children.push_back(child);
  return children;
}

bool runs(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string id, name, state;
  return file >> id >> name >> state && state != "Z";
}

TEST(Processes, KilledWorkersAreReplacedAndTheCandidateRetried) {
  absl::StatusOr<std::unique_ptr<Measurer>> m =
      make_local_measurer(program(), target("interpreter"), quick());
  ASSERT_TRUE(m.ok());
  for (int round = 0; round < 3; ++round) {
    (*m)->submit({candidate(round, kGood)});
    EXPECT_EQ(collect(**m, 1)[round].verdict, Verdict::kOk);
    const std::vector<pid_t> zygotes = children_of(getpid());
    ASSERT_EQ(zygotes.size(), 1u);
    const std::vector<pid_t> workers = children_of(zygotes[0]);
    EXPECT_GE(workers.size(), 2u);
    for (pid_t worker : workers) kill(worker, SIGKILL);
  }
}

TEST(Processes, NoneOutlivesTheMeasurer) {
  {
    absl::StatusOr<std::unique_ptr<Measurer>> m =
        make_local_measurer(program(), target("interpreter"), quick());
    ASSERT_TRUE(m.ok());
    (*m)->submit({candidate(1, kGood)});
  }
  EXPECT_THAT(children_of(getpid()), ::testing::IsEmpty());
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
