// Candidates that mean harm: each ends as a failure of its own, in bounded time, leaves no process
// behind, and the next honest candidate is measured as if nothing had happened.
//
// The code generator is the test's own: a kernel named hostile_<act> becomes a native function of
// this program, every other one goes through LLVM. Whatever the sandbox under test does, the
// program itself lives under hard limits and an alarm.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <thread>

#include "nlohmann/json.hpp"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/expr/language/text.h"
#include "src/measure/local.h"
#include "src/measure/process/ipc.h"
#include "src/measure/process/sandbox.h"
#include "src/measure/workers/workbench.h"
#include "tests/measure/hostile_acts.h"

namespace lw {
namespace {

using ::testing::HasSubstr;

constexpr char kHostileMatmul[] = R"(
op mm(M = 20, N = 24, K = 16) {
  in A: f32[M, K]
  in B: f32[K, N] const
  out D[i: M, j: N] = sum[k: K](A[i, k] * B[k, j])
}
)";

constexpr char kHarmless[] = R"(kernel mm arguments=3 variables=2 workspace=0 private=0 packed=0
buffer A f32 320 argument 0
buffer B f32 384 argument 1
buffer D f32 480 argument 2 written
registers f32x8 3
body {
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
      r2 = load B[24*v1 + 8] stride 1
      r0 = fma r1, r2, r0
    }
    store D[24*v0 + 8] = r0 stride 1
    r0 = const 0
    for v1 < 16 {
      r1 = load A[16*v0 + v1] stride 0
      r2 = load B[24*v1 + 16] stride 1
      r0 = fma r1, r2, r0
    }
    store D[24*v0 + 16] = r0 stride 1
  }
}
)";

class HostileLoaded : public Loaded {
 public:
  explicit HostileLoaded(const Act& act) : act_(act) {}
  int run(const lw_context*, void* const* buffers) const override { return act_(buffers); }
  int prepack(const lw_context*, void* const*) const override { return 0; }

 private:
  const Act& act_;
};

absl::StatusOr<std::unique_ptr<Loaded>> load_hostile(const Artifact& artifact) {
  if (artifact.architecture != "hostile") return load(artifact);
  worker_socket = std::atoi(artifact.entry.c_str());
  return std::unique_ptr<Loaded>(std::make_unique<HostileLoaded>(acts().at(artifact.bytes)));
}

// build_<act> does its act while it generates code.
class HostileBackend : public Backend {
 public:
  absl::StatusOr<Artifact> build(const Kernel& kernel, const Target& target) const override {
    if (kernel.name.rfind("build_", 0) == 0) acts().at(kernel.name.substr(6))(nullptr);
    if (kernel.name.rfind("hostile_", 0) != 0) {
      return find_backend("x86_64").value()->build(kernel, target);
    }
    Artifact artifact;
    artifact.architecture = "hostile";
    const size_t end = kernel.name.find('_', 8);
    artifact.bytes = kernel.name.substr(8, end - 8);
    if (end != std::string::npos) artifact.entry = kernel.name.substr(end + 1);
    return artifact;
  }
  absl::StatusOr<std::string> text(const Kernel&, const Target&, std::string_view) const override {
    return absl::UnimplementedError("no text");
  }
  std::string version() const override { return "hostile 1"; }
};

std::shared_ptr<const Kernel> hostile_kernel(const std::string& name) {
  std::string text = kHarmless;
  text.replace(7, 2, name);
  absl::StatusOr<Kernel> parsed = parse_kernel(text);
  CHECK(parsed.ok());
  return std::make_shared<const Kernel>(*std::move(parsed));
}

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> children;
  std::ifstream file("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children");
  for (pid_t child; file >> child;) children.push_back(child);
  return children;
}

size_t processes_below(pid_t pid) {
  size_t count = 0;
  for (pid_t child : children_of(pid)) count += 1 + processes_below(child);
  return count;
}

// The descriptor that is a socket in a worker of this process; -1: not to be seen.
int workers_socket() {
  for (pid_t zygote : children_of(getpid())) {
    for (pid_t worker : children_of(zygote)) {
      for (int fd = 3; fd < 1000; ++fd) {
        char link[64] = "";
        const std::string path = "/proc/" + std::to_string(worker) + "/fd/" + std::to_string(fd);
        if (readlink(path.c_str(), link, sizeof link - 1) > 0 &&
            std::string(link).rfind("socket:", 0) == 0) {
          return fd;
        }
      }
    }
  }
  return -1;
}

// Hard, for everything below this process.
void limit_this_program() {
  const auto set = [](int resource, rlim_t value) {
    rlimit limit;
    getrlimit(static_cast<__rlimit_resource>(resource), &limit);
    limit.rlim_cur = limit.rlim_max = std::min(limit.rlim_max, value);
    setrlimit(static_cast<__rlimit_resource>(resource), &limit);
  };
  set(RLIMIT_NPROC, 512);
  set(RLIMIT_FSIZE, rlim_t{16} << 20);
  set(RLIMIT_CPU, 120);
  set(RLIMIT_CORE, 0);
  if (!kSanitized) set(RLIMIT_AS, rlim_t{8} << 30);
  alarm(300);
}

class HostileTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    limit_this_program();
    harness = getpid();
    spoils = new std::string(testing::TempDir() + "loopwright_spoils_" + std::to_string(getpid()));
    void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    canary = static_cast<int*>(page);
    *canary = 42;
    madvise(page, 4096, MADV_DONTFORK);
  }
  void SetUp() override {
    LocalOptions options;
    options.run_timeout_s = 0.5;
    options.build_timeout_s = 5;
    options.builders = 1;
    options.memory_limit_bytes = int64_t{256} << 20;
    options.backend = &backend_;
    options.load = load_hostile;
    absl::StatusOr<Module> module = parse_module(kHostileMatmul, "test.te");
    CHECK(module.ok());
    absl::StatusOr<std::unique_ptr<Measurer>> m = make_local_measurer(
        instantiate(module->ops[0], {}).value(), find_target("host").value(), options);
    ASSERT_TRUE(m.ok()) << m.status();
    measurer_ = *std::move(m);
    const Outcome good = one("mm");
    ASSERT_EQ(good.verdict, Verdict::kOk) << good.detail;
    isolation_ = nlohmann::json::parse(good.environment)["isolation"];
  }
  void TearDown() override {
    measurer_.reset();
    EXPECT_EQ(processes_below(getpid()), 0u);
    EXPECT_FALSE(std::ifstream(*spoils).good());
    EXPECT_EQ(*canary, 42);
  }

  Outcome one(const std::string& name) {
    Candidate candidate;
    candidate.ticket = 7;
    candidate.kernel = hostile_kernel(name);
    candidate.verify = true;
    measurer_->submit({candidate});
    for (int i = 0; i < 60; ++i) {
      std::vector<Outcome> outcomes = measurer_->poll(1);
      if (!outcomes.empty()) return outcomes[0];
    }
    ADD_FAILURE() << name << " never ends";
    return Outcome();
  }
  // The act's outcome; then an honest candidate, and no more processes than it needs.
  Outcome act(const std::string& name) {
    const Outcome bad = one("hostile_" + name + "_" + std::to_string(workers_socket()));
    EXPECT_FALSE(bad.verified);
    expect_honest();
    return bad;
  }
  // Finalists, by the names of their kernels.
  std::vector<Outcome> compare(const std::vector<std::string>& names) {
    std::vector<Candidate> batch;
    for (const std::string& name : names) {
      Candidate& candidate = batch.emplace_back();
      candidate.ticket = static_cast<int64_t>(batch.size());
      candidate.kernel = hostile_kernel(name);
      candidate.verify = true;
      candidate.effort = 2;
    }
    return measurer_->interleave(batch, 5);
  }
  static void expect_believed(const Outcome& good) {
    EXPECT_EQ(good.verdict, Verdict::kOk) << good.detail;
    EXPECT_TRUE(good.verified);
    EXPECT_EQ(good.samples_us.size(), 5u);
    EXPECT_GT(good.time_us, 0);
  }
  void expect_honest() {
    const Outcome good = one("mm");
    EXPECT_EQ(good.verdict, Verdict::kOk) << good.detail;
    EXPECT_TRUE(good.verified);
    EXPECT_GT(good.time_us, 0);
    // The zygote, one builder, the spare one, one measurer.
    EXPECT_LE(processes_below(getpid()), 4u);
  }
  // With a filter its first step is its last, and has a name.
  void expect_forbidden(const std::string& name, const std::string& call) {
    const Outcome bad = act(name);
    EXPECT_EQ(bad.verdict, Verdict::kCrash) << bad.detail;
    if (filtered()) EXPECT_THAT(bad.detail, HasSubstr("called " + call + ": not allowed"));
  }
  bool filtered() const { return isolation_.value("filter", false); }

  HostileBackend backend_;
  std::unique_ptr<Measurer> measurer_;
  nlohmann::json isolation_;
};

TEST_F(HostileTest, EndlessLoop) { EXPECT_EQ(act("loop").verdict, Verdict::kTimeout); }
TEST_F(HostileTest, ForkBomb) {
  if (!filtered()) GTEST_SKIP() << "no filter on this machine";
  expect_forbidden("forkbomb", "clone");
}
TEST_F(HostileTest, MemoryHog) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's memory has no limit";
  const Outcome bad = act("hog");
  EXPECT_TRUE(is_candidates_fault(bad.verdict)) << verdict_name(bad.verdict) << bad.detail;
}
TEST_F(HostileTest, WildWrite) {
  // The address holds nothing here (memory of the test that its workers have not inherited).
  const Outcome bad = act("wildwrite");
  EXPECT_EQ(bad.verdict, Verdict::kCrash) << bad.detail;
  EXPECT_THAT(bad.detail, HasSubstr("SIGSEGV: write at address"));
}
TEST_F(HostileTest, StackOverflow) {
  const Outcome bad = act("stack");
  EXPECT_EQ(bad.verdict, Verdict::kCrash) << bad.detail;
}
TEST_F(HostileTest, WritesAFile) { expect_forbidden("file", "openat"); }
TEST_F(HostileTest, OpensTheNetwork) { expect_forbidden("network", "socket"); }
TEST_F(HostileTest, StartsAProgram) { expect_forbidden("exec", "execve"); }
TEST_F(HostileTest, ChangesUser) { expect_forbidden("setuid", "setuid"); }
TEST_F(HostileTest, TracesTheHarness) { expect_forbidden("ptrace", "ptrace"); }
TEST_F(HostileTest, KillsTheHarness) { expect_forbidden("kill", "kill"); }
TEST_F(HostileTest, FloodsStdout) {
  if (!filtered() || kSanitized) GTEST_SKIP() << "no filter on descriptors here";
  expect_forbidden("flood", "write");
}
TEST_F(HostileTest, LeavesAGrandchild) {
  if (!filtered()) GTEST_SKIP() << "no filter on this machine";
  expect_forbidden("grandchild", "clone");
}
TEST_F(HostileTest, LeavesAThread) {
  if (!filtered()) GTEST_SKIP() << "no filter on this machine";
  const Outcome bad = act("thread");
  EXPECT_EQ(bad.verdict, Verdict::kCrash) << bad.detail;
  EXPECT_THAT(bad.detail, HasSubstr("not allowed"));
}
TEST_F(HostileTest, ExitsAsIfAllWereWell) {
  const Outcome bad = act("exit");
  EXPECT_EQ(bad.verdict, Verdict::kCrash);
  EXPECT_THAT(bad.detail, HasSubstr("exit status"));
}
TEST_F(HostileTest, Aborts) {
  const Outcome bad = act("abort");
  EXPECT_EQ(bad.verdict, Verdict::kCrash);
  EXPECT_THAT(bad.detail, HasSubstr("SIGABRT"));
}
TEST_F(HostileTest, StopsItself) { expect_forbidden("stop", "tgkill"); }
TEST_F(HostileTest, KillsItself) { expect_forbidden("suicide", "tgkill"); }
TEST_F(HostileTest, SpoilsAnInput) {
  const Outcome bad = act("spoil");
  EXPECT_EQ(bad.verdict, Verdict::kCrash) << bad.detail;
  EXPECT_THAT(bad.detail, HasSubstr("input A"));
}
TEST_F(HostileTest, ChangesTheFloatingPointEnvironment) {
  const Outcome bad = act("float");
  EXPECT_EQ(bad.verdict, Verdict::kWrongResult) << bad.detail;
  EXPECT_THAT(bad.detail, HasSubstr("floating-point environment"));
}
TEST_F(HostileTest, AnswersForTheHarness) {
  if (workers_socket() < 0) GTEST_SKIP() << "the worker's socket is not to be seen from here";
  const Outcome bad = act("forge");
  EXPECT_EQ(bad.verdict, Verdict::kDeviceUnhealthy) << bad.detail;
}
TEST_F(HostileTest, TakesTheHarnessOver) {
  if (workers_socket() < 0) GTEST_SKIP() << "the worker's socket is not to be seen from here";
  const Outcome bad = act("takeover");
  EXPECT_EQ(bad.verdict, Verdict::kDeviceUnhealthy) << bad.detail;
}
TEST_F(HostileTest, ReportsLessThanItTakes) {
  if (workers_socket() < 0) GTEST_SKIP() << "the worker's socket is not to be seen from here";
  const Outcome bad = act("underreport");
  EXPECT_EQ(bad.verdict, Verdict::kDeviceUnhealthy) << bad.detail;
  EXPECT_THAT(bad.detail, AnyOf(HasSubstr("of processor time"), HasSubstr("samples of")));
}
TEST_F(HostileTest, AFinalistIsVerifiedAfterItsTimesToo) {
  const std::vector<Outcome> outcomes = compare({"mm", "hostile_lazy", "mm"});
  ASSERT_EQ(outcomes.size(), 3u);
  EXPECT_EQ(outcomes[1].verdict, Verdict::kWrongResult) << outcomes[1].detail;
  EXPECT_FALSE(outcomes[1].verified);
  expect_believed(outcomes[0]);
  expect_believed(outcomes[2]);
  expect_honest();
}
// What ends a comparison is found by trying each alone, not by what the ended process says.
TEST_F(HostileTest, AFinalistThatCrashesOthersIsChargedItself) {
  const std::vector<Outcome> outcomes = compare({"hostile_sabotage", "mm"});
  ASSERT_EQ(outcomes.size(), 2u);
  EXPECT_TRUE(is_candidates_fault(outcomes[0].verdict))
      << verdict_name(outcomes[0].verdict) << ": " << outcomes[0].detail;
  expect_believed(outcomes[1]);
  expect_honest();
}
TEST_F(HostileTest, AFinalistThatCrashesWhenComparedIsLeftOut) {
  const std::vector<Outcome> outcomes = compare({"mm", "hostile_late", "hostile_loop", "mm"});
  ASSERT_EQ(outcomes.size(), 4u);
  EXPECT_EQ(outcomes[1].verdict, Verdict::kCrash) << outcomes[1].detail;
  EXPECT_EQ(outcomes[2].verdict, Verdict::kTimeout) << outcomes[2].detail;
  expect_believed(outcomes[0]);
  expect_believed(outcomes[3]);
  expect_honest();
}
TEST_F(HostileTest, CodeGeneratorsAreShutInToo) {
  for (const char* name : {"build_file", "build_network", "build_exec", "build_kill"}) {
    const Outcome bad = one(name);
    EXPECT_EQ(bad.verdict, Verdict::kBuildError) << bad.detail;
    if (filtered()) EXPECT_THAT(bad.detail, HasSubstr("not allowed while building"));
  }
  expect_honest();
}
TEST_F(HostileTest, AllOfThemInARow) {
  for (const char* name : {"loop", "file", "stack", "exit", "network", "spoil"}) {
    EXPECT_NE(one(std::string("hostile_") + name + "_3").verdict, Verdict::kOk) << name;
  }
  expect_honest();
}

TEST(IsolationTest, MoreThanThereIsIsRefusedClearly) {
  const Isolation here = detect_isolation();
  EXPECT_EQ(parse_isolation(isolation_name(here.level())).value(), here.level());
  EXPECT_FALSE(parse_isolation("castle").ok());
  LocalOptions options;
  options.isolation = here.level();
  absl::StatusOr<Module> module = parse_module(kHostileMatmul, "test.te");
  const Program program = instantiate(module->ops[0], {}).value();
  const Target target = find_target("host").value();
  EXPECT_TRUE(make_local_measurer(program, target, options).ok());
  options.isolation = static_cast<IsolationLevel>(static_cast<int>(here.level()) + 1);
  if (options.isolation > IsolationLevel::kNamespaces) return;
  const absl::Status status = make_local_measurer(program, target, options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("is required"));
}

}  // namespace
}  // namespace lw
