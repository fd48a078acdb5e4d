// What every device promises, whatever machine it is: one suite, over this host by two backends, an
// emulator, the simulated NPU, here and as an exec device, a processor as an exec device, OpenCL's
// first, a fake of CUDA's, and the measurer that measures nothing. Each failure has its verdict and
// costs one candidate; the next one works.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <thread>

#include "src/measure/cpu/emulator.h"
#include "src/measure/emulated.h"
#include "src/measure/simt/opencl_devices.h"
#include "src/search/null_measurer.h"
#include "tests/measure/cuda_programs.h"
#include "tests/measure/measurer_fixture.h"
#include "tests/measure/npu_modules.h"
#include "tests/measure/opencl_programs.h"
#include "tests/support/program.h"

namespace lw {
namespace {

using ::testing::HasSubstr;

// What a kernel does.
enum class Deed {
  kGood,
  kWrong,                                  // computes something else
  kPartial,                                // leaves a part of its output unwritten
  kBeside,                                 // writes just behind its output, where nothing faults
  kInput,                                  // writes into an input
  kHang,
  kHog,                                    // wants more memory than there may be
};

struct Expected {
  std::string kernel;                      // its text
  Verdict verdict = Verdict::kOk;
  std::string detail;                      // a part of it
};

struct DeviceUnderTest {
  std::string name;
  std::map<Deed, Expected> acts;            // all of them, or the good one alone
  absl::StatusOr<std::unique_ptr<Measurer>> (*make)(LocalOptions options);
  TimeKind time_kind = TimeKind::kMeasured;
  bool repeats = false;                    // a kernel's time is the same, whenever it is asked for
  bool single = false;                     // and one sample is all there is
  std::string (*lacks)() = [] { return std::string(); };  // what is missing here; "": nothing
};

const std::string kWriteInput = "r0 = const 0\nstore B[32] = r0 stride 1\n";
const std::string kWriteBeside = "r0 = const 0\nstore D[480] = r0 stride 1\n";
const std::string kEndless =
    "for v0 < 9000000000000000 {\nr0 = load D[0] stride 1\n"
    "r0 = add r0, r0\nstore D[0] = r0 stride 1\n}\n";

// Of the kernels of measurer_fixture.h. Accesses that are wrong whatever the data: the interpreter's
// backend refuses to build them, LLVM's trusts the lowering.
std::map<Deed, Expected> cpu_acts(bool refuses) {
  const auto wild = [refuses](Verdict verdict, const std::string& statements,
                              const std::string& detail) {
    return refuses ? Expected{first(statements), Verdict::kBuildError, ""}
                   : Expected{first(statements), verdict, detail};
  };
  return {{Deed::kGood, {kGood}},
          {Deed::kWrong, {replaced("for v1 < 16", "for v1 < 15"), Verdict::kWrongResult, "D["}},
          {Deed::kPartial,
           {replaced("    store D[24*v0 + 16] = r0 stride 1 mask r3\n",
                     "    if v0 - 1 >= 0 {\n"
                     "    store D[24*v0 + 16] = r0 stride 1 mask r3\n    }\n"),
            Verdict::kWrongResult, "not written"}},
          {Deed::kBeside, wild(Verdict::kWrongResult, kWriteBeside, "wrote beside output D")},
          {Deed::kInput, wild(Verdict::kCrash, kWriteInput, " of input B")},
          {Deed::kHang, {first(kEndless), Verdict::kTimeout, "took longer than"}},
          {Deed::kHog,
           {replaced("workspace=64", "workspace=70368744177664"), Verdict::kDeviceLimit,
            "bytes of workspace, the limit is"}}};
}

std::map<Deed, Expected> npu_acts() {
  const auto act = [](const char* name, Verdict verdict, const char* detail) {
    return Expected{npu_kernel(name), verdict, detail};
  };
  return {{Deed::kGood, act("good", Verdict::kOk, "")},
          {Deed::kWrong, act("twice", Verdict::kWrongResult, "D[")},
          {Deed::kPartial, act("short", Verdict::kWrongResult, "D[19, ")},
          {Deed::kBeside, act("beside", Verdict::kWrongResult, "bounds: instruction 6 (st ")},
          {Deed::kInput, act("input", Verdict::kWrongResult, "in no buffer that may be written")},
          {Deed::kHang, act("endless", Verdict::kTimeout, "took longer than")},
          {Deed::kHog, act("hog", Verdict::kDeviceLimit, "bytes of workspace, the limit is")}};
}

// Of a driver's device: `kernel` is that of the name.
std::map<Deed, Expected> driven_acts(std::string (*kernel)(const std::string& name)) {
  const auto act = [kernel](const char* name, Verdict verdict, const char* detail) {
    return Expected{kernel(name), verdict, detail};
  };
  return {{Deed::kGood, act("good", Verdict::kOk, "")},
          {Deed::kWrong, act("wrong", Verdict::kWrongResult, "D[")},
          {Deed::kPartial, act("partial", Verdict::kWrongResult, "not written")},
          {Deed::kBeside, act("beside", Verdict::kWrongResult, "wrote beside output D")},
          {Deed::kInput, act("input", Verdict::kWrongResult, "wrote into input B")},
          {Deed::kHang, act("endless", Verdict::kTimeout, "took longer than")},
          {Deed::kHog, act("hog", Verdict::kDeviceLimit, "bytes of workspace, the limit is")}};
}

const std::vector<DeviceUnderTest>& devices() {
  static const std::vector<DeviceUnderTest> all = {
      {.name = "host",
       .acts = cpu_acts(false),
       .make = [](LocalOptions options) {
         return make_local_measurer(program(), target("llvm"), options);
       }},
      {.name = "interpreter",
       .acts = cpu_acts(true),
       .make = [](LocalOptions options) {
         return make_local_measurer(program(), target("interpreter"), options);
       }},
      {.name = "emulator",
       .acts = cpu_acts(false),
       .make = [](LocalOptions options) {
         options.run_timeout_s = 2;        // it has to be started
         return make_emulated_measurer(program(), *find_target("aarch64_neon"), options);
       },
       .time_kind = TimeKind::kEstimated,
       .repeats = true,
       .single = true,
       .lacks = [] {
         const absl::Status found = find_emulator(*find_target("aarch64_neon")).status();
         return std::string(found.message());
       }},
      {.name = "npu",
       .acts = npu_acts(),
       .make = make_npu_measurer,
       .time_kind = npu_driver().time_kind,
       .repeats = true,
       .single = true},
      {.name = "exec",
       .acts = npu_acts(),
       .make = [](LocalOptions options) {
         options.exec = LW_BINARY_DIR "/npu_sim exec";
         return make_npu_measurer(options);
       },
       .time_kind = npu_driver().time_kind,
       .repeats = true,
       .single = true},
      {.name = "board",
       .acts = cpu_acts(false),
       .make = [](LocalOptions options) {
         utsname name;
         CHECK(uname(&name) == 0);
         options.exec = std::string(LW_BINARY_DIR "/lw_runner_") + name.machine;
         return make_local_measurer(program(), target("llvm"), options);
       }},
      {.name = "opencl",
       .acts = driven_acts(opencl_kernel),
       .make = make_opencl_measurer,
       .lacks = [] { return std::string(named_opencl_device("").status().message()); }},
      {.name = "cuda",                     // a fake one
       .acts = driven_acts(cuda_kernel),
       .make = make_cuda_measurer},
      {.name = "null",
       .acts = {{Deed::kGood, {kGood}}},
       .make = [](LocalOptions options) -> absl::StatusOr<std::unique_ptr<Measurer>> {
         return make_null_measurer({.seed = options.seed, .time_kind = TimeKind::kEstimated});
       },
       .time_kind = TimeKind::kEstimated,
       .repeats = true}};
  return all;
}

class DeviceTest : public ::testing::TestWithParam<size_t> {
 protected:
  void SetUp() override {
    if (!device().lacks().empty()) GTEST_SKIP() << "[SKIP] " << device().lacks();
  }
  const DeviceUnderTest& device() const { return devices()[GetParam()]; }
  bool can(Deed act) const { return device().acts.contains(act); }
  std::string text(Deed act) const { return device().acts.at(act).kernel; }
  std::unique_ptr<Measurer> make(const LocalOptions& options = quick()) const {
    absl::StatusOr<std::unique_ptr<Measurer>> measurer = device().make(options);
    CHECK(measurer.ok());
    return *std::move(measurer);
  }
  static Outcome one(Measurer& measurer, const Candidate& candidate) {
    measurer.submit({candidate});
    return collect(measurer, 1)[candidate.ticket];
  }
  Outcome one(Measurer& measurer, Deed act) const { return one(measurer, candidate(7, text(act))); }
  void expect_good(const Outcome& outcome) const {
    EXPECT_EQ(outcome.verdict, Verdict::kOk) << outcome.detail;
    EXPECT_TRUE(outcome.verified);
    EXPECT_GT(outcome.time_us, 0);
    EXPECT_LE(outcome.ci_low_us, outcome.time_us);
    EXPECT_GE(outcome.ci_high_us, outcome.time_us);
    EXPECT_LE(outcome.max_rel_error, 1);
    EXPECT_EQ(outcome.time_kind, device().time_kind);
    EXPECT_THAT(outcome.environment, ::testing::Not(HasSubstr("oracle")));
    if (!device().single) return;
    EXPECT_EQ(outcome.samples_us, std::vector<double>{outcome.time_us});
    EXPECT_EQ(outcome.inner, 1);
    EXPECT_EQ(outcome.ci_low_us, outcome.time_us);
    EXPECT_EQ(outcome.ci_high_us, outcome.time_us);
  }
  void expect_as(Deed act, const Outcome& outcome) const {
    if (act == Deed::kGood) return expect_good(outcome);
    const Expected& expected = device().acts.at(act);
    EXPECT_EQ(outcome.verdict, expected.verdict) << outcome.detail;
    EXPECT_THAT(outcome.detail, HasSubstr(expected.detail));
    EXPECT_FALSE(outcome.verified);
  }
  // Then the good one, on the same device.
  void expect_noticed(Deed act) const {
    const std::unique_ptr<Measurer> measurer = make();
    expect_as(act, one(*measurer, act));
    expect_good(one(*measurer, Deed::kGood));
  }
};

// Of devices that run kernels, in processes of their own.
class RunningTest : public DeviceTest {};
// Of those whose times repeat.
class RepeatingTest : public DeviceTest {};

TEST_P(DeviceTest, ARightResultIsTimedAndVerified) {
  const std::unique_ptr<Measurer> measurer = make();
  EXPECT_EQ(measurer->time_kind(), device().time_kind);
  expect_good(one(*measurer, Deed::kGood));
}

TEST_P(RunningTest, AWrongResultIsNoticed) { expect_noticed(Deed::kWrong); }
TEST_P(RunningTest, AnUnwrittenPartIsNoticed) { expect_noticed(Deed::kPartial); }
TEST_P(RunningTest, AWriteBesideTheOutputIsNoticed) { expect_noticed(Deed::kBeside); }
TEST_P(RunningTest, AWriteIntoAnInputIsNoticed) { expect_noticed(Deed::kInput); }
TEST_P(RunningTest, WhatDoesNotEndIsATimeout) { expect_noticed(Deed::kHang); }
TEST_P(RunningTest, AMemoryHogExceedsTheDevice) { expect_noticed(Deed::kHog); }

TEST_P(RunningTest, AKernelOfAnotherProgramIsABuildError) {
  Candidate other = candidate(1, text(Deed::kGood));
  Kernel k = *other.kernel;
  k.arguments = 4;
  other.kernel = std::make_shared<const Kernel>(k);
  EXPECT_EQ(one(*make(), other).verdict, Verdict::kBuildError);
}

TEST_P(DeviceTest, EachOfManyComesBackOnceThoughSomeAreWild) {
  std::vector<Candidate> batch;
  std::vector<Deed> acts;
  for (int i = 0; i < 24; ++i) {
    const Deed act = i % 6 == 2 ? Deed::kInput : i % 6 == 4 ? Deed::kWrong : Deed::kGood;
    acts.push_back(can(act) ? act : Deed::kGood);
    batch.push_back(candidate(i, text(acts.back())));
  }
  const std::unique_ptr<Measurer> measurer = make();
  measurer->submit(batch);
  for (const auto& [ticket, outcome] : collect(*measurer, batch.size())) {
    SCOPED_TRACE(ticket);
    expect_as(acts[static_cast<size_t>(ticket)], outcome);
  }
}

TEST_P(DeviceTest, WhatIsFarBehindIsNotVerified) {
  Candidate behind = candidate(3, text(Deed::kGood));
  behind.incumbent_us = 1e-4;
  behind.verify = false;
  const Outcome outcome = one(*make(), behind);
  EXPECT_EQ(outcome.verdict, Verdict::kOk) << outcome.detail;
  EXPECT_EQ(outcome.samples_us.size(), 1u);
  EXPECT_FALSE(outcome.verified);
}

TEST_P(DeviceTest, FinalistsComeInOrderAndSurviveAWildOne) {
  const Deed wild = can(Deed::kInput) ? Deed::kInput : Deed::kGood;
  Candidate behind = candidate(9, text(Deed::kGood));
  behind.incumbent_us = 1e-4;              // of a comparison everybody is verified
  behind.verify = false;
  const std::vector<Outcome> outcomes = make()->interleave(
      {candidate(5, text(Deed::kGood)), candidate(6, text(wild)), behind}, 4);
  ASSERT_EQ(outcomes.size(), 3u);
  for (const size_t i : {0, 2}) {
    expect_good(outcomes[i]);
    EXPECT_EQ(outcomes[i].samples_us.size(), device().single ? 1u : 4u);
  }
  expect_as(wild, outcomes[1]);
  EXPECT_EQ(outcomes[0].ticket, 5);
  EXPECT_EQ(outcomes[1].ticket, 6);
  EXPECT_EQ(outcomes[2].ticket, 9);
}

TEST_P(DeviceTest, CancelDropsWhatHasNotStarted) {
  const std::unique_ptr<Measurer> measurer = make();
  std::vector<Candidate> batch;
  for (int i = 0; i < 200; ++i) batch.push_back(candidate(i, text(Deed::kGood)));
  measurer->submit(batch);
  measurer->cancel();
  const Deed last = can(Deed::kWrong) ? Deed::kWrong : Deed::kGood;
  measurer->submit({candidate(1000, text(last))});
  // What had started before finishes.
  std::map<int64_t, Outcome> outcomes;
  ASSERT_TRUE(eventually([&] {
    for (Outcome& outcome : measurer->poll(0)) outcomes[outcome.ticket] = std::move(outcome);
    return outcomes.count(1000) > 0;
  }));
  expect_as(last, outcomes[1000]);
  EXPECT_LT(outcomes.size(), 200u);
}

TEST_P(RunningTest, AStoppedComparisonIsNobodysFault) {
  LocalOptions options = quick();
  options.run_timeout_s = 60;
  options.stop = Stop::on_request();
  const std::unique_ptr<Measurer> measurer = make(options);
  std::thread stopper([&] {
    usleep(300'000);
    options.stop.request();
  });
  const std::vector<Outcome> outcomes =
      measurer->interleave({candidate(4, text(Deed::kHang)), candidate(5, text(Deed::kGood))}, 4);
  stopper.join();
  ASSERT_EQ(outcomes.size(), 2u);
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.verdict, Verdict::kWorkerLost);
  EXPECT_EQ(outcomes[1].ticket, 5);
}

TEST_P(RepeatingTest, ATimeIsTheSameBitForBit) {
  std::vector<Outcome> outcomes;
  for (int round = 0; round < 2; ++round) {
    const std::unique_ptr<Measurer> measurer = make();
    outcomes.push_back(one(*measurer, Deed::kGood));
    if (!device().single) continue;
    outcomes.push_back(one(*measurer, Deed::kGood));
    outcomes.push_back(measurer->interleave({candidate(7, text(Deed::kGood))}, 5)[0]);
  }
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.samples_us, outcomes[0].samples_us);
    EXPECT_EQ(outcome.time_us, outcomes[0].time_us);
  }
}

TEST_P(RunningTest, KilledWorkersAreReplacedAndTheCandidateRetried) {
  const std::unique_ptr<Measurer> measurer = make();
  for (int round = 0; round < 3; ++round) {
    expect_good(one(*measurer, candidate(round, text(Deed::kGood))));
    const std::vector<pid_t> zygotes = children_of(getpid());
    ASSERT_EQ(zygotes.size(), 1u);
    const std::vector<pid_t> workers = children_of(zygotes[0]);
    EXPECT_GE(workers.size(), 2u);
    for (pid_t worker : workers) kill(worker, SIGKILL);
  }
}

TEST_P(DeviceTest, NoProcessOutlivesTheMeasurer) {
  expect_good(one(*make(), Deed::kGood));
  EXPECT_THAT(children_of(getpid()), ::testing::IsEmpty());
}

auto those(bool (*is)(const DeviceUnderTest&)) {
  std::vector<size_t> found;
  for (size_t i = 0; i < devices().size(); ++i) {
    if (is(devices()[i])) found.push_back(i);
  }
  return ::testing::ValuesIn(found);
}
std::string name_of_device(const ::testing::TestParamInfo<size_t>& info) {
  return devices()[info.param].name;
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceTest, those([](const DeviceUnderTest&) { return true; }),
                         name_of_device);
INSTANTIATE_TEST_SUITE_P(
    Devices, RunningTest, those([](const DeviceUnderTest& d) { return d.acts.size() > 1; }),
    name_of_device);
INSTANTIATE_TEST_SUITE_P(Devices, RepeatingTest,
                         those([](const DeviceUnderTest& d) { return d.repeats; }),
                         name_of_device);

}  // namespace
}  // namespace lw
