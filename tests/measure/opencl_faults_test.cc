// OpenCL programs that ask for what there is not, on the device that is here; and a driver that goes
// wrong (tests/support/drivers/fake_opencl.cc): each fault has its verdict, costs one candidate or the device
// that it is of, and the next candidate is measured well.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

#include "src/measure/simt/opencl_devices.h"
#include "src/measure/simt/opencl_probe.h"
#include "src/measure/simt/opencl_target.h"
#include "tests/measure/opencl_programs.h"

namespace lw {
namespace {

using ::testing::HasSubstr;

struct Fault {
  std::string program;
  Verdict verdict;
  std::string detail;                      // a part of it
};

Outcome measured(Measurer& measurer, const std::string& program) {
  measurer.submit({candidate(7, opencl_kernel(program))});
  return collect(measurer, 1)[7];
}

void expect_fine(const Outcome& outcome) {
  EXPECT_EQ(outcome.verdict, Verdict::kOk) << outcome.detail;
  EXPECT_TRUE(outcome.verified);
  EXPECT_GT(outcome.time_us, 0);
}

void expect_faults(const std::vector<Fault>& faults, const LocalOptions& options) {
  const absl::StatusOr<std::unique_ptr<Measurer>> measurer = make_opencl_measurer(options);
  ASSERT_TRUE(measurer.ok()) << measurer.status();
  for (const Fault& fault : faults) {
    SCOPED_TRACE(fault.program);
    const Outcome outcome = measured(**measurer, fault.program);
    EXPECT_EQ(outcome.verdict, fault.verdict) << outcome.detail;
    EXPECT_THAT(outcome.detail, HasSubstr(fault.detail));
    expect_fine(measured(**measurer, "good"));
  }
}

TEST(SimtProgramsTest, WhatADeviceHasNotIsRefused) {
  if (const absl::Status here = named_opencl_device("").status(); !here.ok()) {
    GTEST_SKIP() << "[SKIP] " << here.message();
  }
  expect_faults({{"packed", Verdict::kOk, ""},
                 {"aside", Verdict::kWrongResult, "wrote beside the workspace"},
                 {"buffer", Verdict::kDeviceLimit, "the device's limit for a buffer is"},
                 {"crowd", Verdict::kDeviceLimit, "groups of 1048576 items, the device's limit is"},
                 {"local", Verdict::kDeviceLimit, "1099511627776 bytes of local memory"},
                 {"nonsense", Verdict::kBuildError, "clBuildProgram: CL_BUILD_PROGRAM_FAILURE"},
                 {"nameless", Verdict::kBuildError, "kernel nn: clCreateKernel"},
                 {"other", Verdict::kBuildError, "1535 bytes for input B, which has 1536"},
                 {"corrupt", Verdict::kBuildError, "program of launches"}},
                quick());
}

TEST(SimtProgramsTest, NoFolderOfADriversIsLeft) {
  if (const absl::Status here = named_opencl_device("").status(); !here.ok()) {
    GTEST_SKIP() << "[SKIP] " << here.message();
  }
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / concat("caches_", getpid());
  fs::create_directories(folder);
  setenv("TMPDIR", folder.c_str(), 1);
  {
    const std::unique_ptr<Measurer> measurer = make_opencl_measurer(quick()).value();
    expect_fine(measured(*measurer, "good"));
    EXPECT_FALSE(fs::is_empty(folder));
    // As a process that was killed has left it.
    fs::create_directories(folder / concat("loopwright-pocl-", geteuid(), "-killed"));
    std::ofstream(folder / concat("loopwright-pocl-", geteuid(), "-killed") / "lock");
  }
  (void)make_opencl_measurer(quick());
  EXPECT_TRUE(fs::is_empty(folder));
  unsetenv("TMPDIR");
  fs::remove_all(folder);
}

// With the library under a name of its own, by which its devices are remembered.
class FakeOpenClTest : public ::testing::Test {
 protected:
  void SetUp() override {
    static int count = 0;
    path_ = concat(testing::TempDir(), "fake_opencl_", getpid(), "_", ++count);
    std::filesystem::create_symlink(LW_BINARY_DIR "/libfake_opencl.so", path_ + ".so");
    setenv("LOOPWRIGHT_OPENCL", (path_ + ".so").c_str(), 1);
    behave("");
  }
  void TearDown() override {
    unsetenv("LOOPWRIGHT_OPENCL");
    unsetenv("LW_FAKE_OPENCL");
    for (const char* ending : {".so", ".gone", ".log"}) unlink((path_ + ending).c_str());
  }
  static void behave(const std::string& words) { setenv("LW_FAKE_OPENCL", words.c_str(), 1); }

  std::string path_;
};

TEST_F(FakeOpenClTest, EachFaultHasItsVerdict) {
  LocalOptions options = quick();
  options.build_timeout_s = 3;
  expect_faults(
      {{"fake_build_hangs", Verdict::kTimeout, "building took longer than 3 s"},
       {"fake_build_dies", Verdict::kBuildError, "SIGSEGV"},
       {"fake_build_lost", Verdict::kDeviceUnhealthy, "clBuildProgram: CL_OUT_OF_RESOURCES"},
       {"fake_enqueue_dies", Verdict::kCrash, "SIGSEGV"},
       {"fake_finish_hangs", Verdict::kTimeout, "running took longer than"},
       {"fake_wrong", Verdict::kWrongResult, "D["},
       {"fake_lost", Verdict::kDeviceUnhealthy, "clEnqueueNDRangeKernel: CL_OUT_OF_RESOURCES"}},
      options);
}

TEST_F(FakeOpenClTest, FinalistsSurviveEachOfThem) {
  for (const char* wild : {"fake_build_dies", "fake_enqueue_dies", "fake_finish_hangs"}) {
    SCOPED_TRACE(wild);
    const std::unique_ptr<Measurer> measurer = make_opencl_measurer(quick()).value();
    const std::vector<Outcome> outcomes =
        measurer->interleave({candidate(1, opencl_kernel("good")), candidate(2, opencl_kernel(wild)),
                              candidate(3, opencl_kernel("good"))}, 3);
    ASSERT_EQ(outcomes.size(), 3u);
    expect_fine(outcomes[0]);
    EXPECT_NE(outcomes[1].verdict, Verdict::kOk);
    expect_fine(outcomes[2]);
  }
}

TEST_F(FakeOpenClTest, AClockThatMakesNoSenseIsNotRead) {
  for (const char* clock : {"", "clock_zero", "clock_back", "clock_slow", "clock_wild"}) {
    SCOPED_TRACE(clock);
    behave(clock);
    const std::unique_ptr<Measurer> measurer = make_opencl_measurer(quick()).value();
    const Outcome outcome = measured(*measurer, "good");
    expect_fine(outcome);
    EXPECT_GE(outcome.time_us, 20);        // that it takes at least
  }
}

TEST_F(FakeOpenClTest, BuildersCompileAndTheDeviceLoadsTheBinary) {
  behave(concat("log=", path_, ".log"));
  {
    const std::unique_ptr<Measurer> measurer = make_opencl_measurer(quick()).value();
    expect_fine(measured(*measurer, "good"));
  }
  std::ifstream log(path_ + ".log");
  std::set<int> sources, binaries;
  std::string what;
  for (int pid = 0; log >> what >> pid;) (what == "source" ? sources : binaries).insert(pid);
  EXPECT_EQ(sources.size(), 1u);
  EXPECT_EQ(binaries.size(), 1u);
  EXPECT_NE(sources, binaries);
}

TEST_F(FakeOpenClTest, WhatItDoesNotGiveCostsOneCandidate) {
  behave("alloc=524288");
  expect_faults({{"roomy", Verdict::kDeviceLimit, "clCreateBuffer: CL_MEM_OBJECT_ALLOCATION_FAILURE"}},
                quick());
}

// NVIDIA's says 256 of groups that run with 768.
TEST_F(FakeOpenClTest, AGroupOfTheSizeItWasCompiledForIsTried) {
  behave("doubts");
  expect_faults({{"fake_crowded", Verdict::kDeviceLimit,
                  "groups of 24 items, for which the device's limit is 1"}},
                quick());                  // which measures a good one too
}

TEST_F(FakeOpenClTest, ADeviceThatVanishesComesBack) {
  behave(concat("gone=", path_, ".gone"));
  const std::unique_ptr<Measurer> measurer = make_opencl_measurer(quick()).value();
  expect_fine(measured(*measurer, "good"));
  std::ofstream(path_ + ".gone");
  EXPECT_EQ(measured(*measurer, "fake_enqueue_dies").verdict, Verdict::kCrash);
  const Outcome outcome = measured(*measurer, "good");
  EXPECT_EQ(outcome.verdict, Verdict::kDeviceUnhealthy);
  EXPECT_THAT(outcome.detail, HasSubstr("OpenCL's drivers know no device of this machine"));
  unlink((path_ + ".gone").c_str());
  expect_fine(measured(*measurer, "good"));
}

TEST_F(FakeOpenClTest, DriversThatDoNotAnswerAreNamed) {
  const auto expect = [](const std::string& words, absl::StatusCode code, const std::string& text,
                         double limit_s = 20) {
    SCOPED_TRACE(words);
    behave(words);
    const absl::Status status = list_opencl_devices(limit_s).status();
    EXPECT_EQ(status.code(), code);
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  };
  expect("list_hangs", absl::StatusCode::kUnavailable, "does not say within", 0.5);
  expect("list_dies", absl::StatusCode::kUnavailable, "ends its process when asked");
  expect("no_platform", absl::StatusCode::kNotFound, "knows no platform: install a driver");
  expect("no_device", absl::StatusCode::kNotFound, "know no device of this machine");
  setenv("LOOPWRIGHT_OPENCL", (path_ + ".none").c_str(), 1);
  expect("", absl::StatusCode::kNotFound, "no OpenCL here (");
  std::ofstream(path_ + ".log") << "no library";
  setenv("LOOPWRIGHT_OPENCL", (path_ + ".log").c_str(), 1);
  expect("", absl::StatusCode::kNotFound, "no OpenCL here (");
}

TEST_F(FakeOpenClTest, AnAbsurdLimitIsNotBelieved) {
  const std::string huge = "=9223372036854775808";
  int count = 0;
  for (const std::string& words :
       {std::string("units=0"), std::string("group=0"), "group" + huge, std::string("buffer=0"),
        "buffer" + huge, std::string("memory=0"), "memory" + huge, "local" + huge}) {
    SCOPED_TRACE(words);
    behave(words);
    const std::string name = concat(path_, "_", ++count, ".so");
    std::filesystem::create_symlink(LW_BINARY_DIR "/libfake_opencl.so", name);
    setenv("LOOPWRIGHT_OPENCL", name.c_str(), 1);
    const absl::Status status = opencl_target("0").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr("opencl:0 (Fake board) cannot be used: "));
    EXPECT_THAT(std::string(named_opencl_device("").status().message()),
                HasSubstr("which cannot be used: "));
    unlink(name.c_str());
  }
}

TEST_F(FakeOpenClTest, ItIsATargetAsItDescribesItself) {
  const absl::StatusOr<Target> target = opencl_target("fake");
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_EQ(target->name, "opencl:fake-board");
}

TEST_F(FakeOpenClTest, SubGroupsAreOfASizeThatAKernelMayAskFor) {
  const std::string both = "extensions=cl_intel_subgroups cl_intel_required_subgroup_size";
  struct Case { std::string says; int items; };
  int count = 0;
  for (const Case& c : {Case{"", 1}, {"sub_groups=8:16", 1}, {both, 1},
                        {"extensions=cl_intel_subgroups,sub_groups=8:16", 1},
                        {both + ",sub_groups=8:16:32", 16}, {both + ",sub_groups=32:64", 32},
                        {both + ",sub_groups=8:4", 8}, {both + ",sub_groups=0:1:8:4000000", 8},
                        {both + ",group=8,sub_groups=8:16", 8}, {both + ",sub_groups=512", 1}}) {
    SCOPED_TRACE(c.says);
    behave(c.says);
    const std::string name = concat(path_, "_", ++count, ".so");
    std::filesystem::create_symlink(LW_BINARY_DIR "/libfake_opencl.so", name);
    setenv("LOOPWRIGHT_OPENCL", name.c_str(), 1);
    const absl::StatusOr<Target> target = opencl_target("0");
    unlink(name.c_str());
    ASSERT_TRUE(target.ok()) << target.status();
    EXPECT_EQ(simt(*target).sub_group, c.items);
  }
}

TEST_F(FakeOpenClTest, AProbeIsKeptAndItsTargetsConstantsAreOfIt) {
  const std::string state = path_ + ".state";
  setenv("XDG_STATE_HOME", state.c_str(), 1);
  const OpenClDevice device = find_opencl_device("0").value();
  EXPECT_EQ(kept_probe(device), std::nullopt);
  const Target before = opencl_target("0").value();
  OpenClProbe probe = probe_opencl(device).value();
  EXPECT_EQ(probe.copies.size(), 5u);
  for (const OpenClProbe::Copy& copy : probe.copies) EXPECT_GT(copy.gbytes, 0);
  EXPECT_GT(probe.fma_gflops, 0);
  EXPECT_GT(probe.local_gbytes, 0);
  ASSERT_GE(probe.reads.size(), 2u);
  for (const OpenClProbe::Read& read : probe.reads) EXPECT_GT(read.gbytes, 0);
  EXPECT_GT(probe.barrier_us, 0);
  EXPECT_GE(probe.launch_us, 20);          // that a kernel takes there
  EXPECT_GE(probe.group_us, 0);
  probe.launch_us = 31;
  probe.barrier_items = 64;
  probe.barrier_us = 6.4;
  probe.copies = {{1, 30}, {4, 40}};
  ASSERT_EQ(keep_probe(device, probe), absl::OkStatus());
  EXPECT_EQ(to_json(kept_probe(device).value()), to_json(probe));
  const Target after = opencl_target("0").value();
  EXPECT_EQ(simt(after).launch_us, 33);
  EXPECT_EQ(simt(after).barrier_us, simt(before).simd == 1 ? 0.1 : simt(after).barrier_us);
  EXPECT_NE(simt(after).barrier_us, simt(before).barrier_us);
  EXPECT_NEAR(after.caches.back().read_bytes_per_cycle * after.ghz, 40, 9);
  // Of another release it is not, and what is none is not read.
  OpenClDevice newer = device;
  newer.driver = "1.1";
  EXPECT_EQ(kept_probe(newer), std::nullopt);
  for (const auto& file : std::filesystem::directory_iterator(state + "/loopwright")) {
    std::ofstream(file.path()) << "{\"copies\":[{\"width\":0}]}";
  }
  EXPECT_EQ(kept_probe(device), std::nullopt);
  EXPECT_EQ(to_text(opencl_target("0").value()), to_text(before));
  std::filesystem::remove_all(state);
  unsetenv("XDG_STATE_HOME");
}

TEST_F(FakeOpenClTest, ASharedCacheIsWhatIsReadFaster) {
  OpenClProbe probe;
  EXPECT_FALSE(shared_cache(probe));
  probe.reads = {{1 << 20, 900}, {2 << 20, 1000}, {4 << 20, 800}, {8 << 20, 420}, {16 << 20, 400}};
  EXPECT_EQ(shared_cache(probe).value().bytes, 4 << 20);
  EXPECT_EQ(shared_cache(probe).value().gbytes, 900);
  Target target = opencl_target("0").value();
  SimtTarget part = simt(target);
  probe.copies = {{4, 300}};
  apply_probe(find_opencl_device("0").value(), probe, &target, &part);
  const CacheLevel& shared = target.caches[target.caches.size() - 2];
  EXPECT_EQ(shared.bytes, 4 << 20);
  EXPECT_GT(shared.read_bytes_per_cycle, 2 * target.caches.back().read_bytes_per_cycle);
  // What shows none says nothing of its size, but it is not slower than memory.
  probe.reads = {{1 << 20, 500}, {2 << 20, 400}};
  EXPECT_FALSE(shared_cache(probe));
  target = opencl_target("0").value();
  const int64_t bytes = target.caches[target.caches.size() - 2].bytes;
  apply_probe(find_opencl_device("0").value(), probe, &target, &part);
  EXPECT_EQ(target.caches[target.caches.size() - 2].bytes, bytes);
  EXPECT_GE(target.caches[target.caches.size() - 2].read_bytes_per_cycle,
            target.caches.back().read_bytes_per_cycle);
}

TEST_F(FakeOpenClTest, AProbeThatTheDriverDoesNotSurviveIsSaid) {
  const OpenClDevice device = find_opencl_device("0").value();
  behave("build_dies");
  const absl::Status died = probe_opencl(device).status();
  EXPECT_EQ(died.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(died.message()), HasSubstr("measuring 'Fake board': SIGSEGV"));
  behave("build_hangs");
  EXPECT_THAT(std::string(probe_opencl(device, 1).status().message()),
              HasSubstr("measuring 'Fake board': it took longer than 1 s"));
}

}  // namespace
}  // namespace lw
