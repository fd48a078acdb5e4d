// Evidence of a measurement: facts of the machine, their fingerprint, drift, and the device's lock.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "nlohmann/json.hpp"
#include "src/base/parallel_pool.h"
#include "src/measure/machine/device_lock.h"
#include "src/measure/machine/hygiene.h"

namespace lw {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class Folder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "loopwright_hygiene_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }
  void put(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(folder_ + path).parent_path());
    std::ofstream(folder_ + path) << text;
  }
  std::string folder_;
};

using Facts = Folder;

TEST_F(Facts, AreReadFromTheSystemsFiles) {
  put("/proc/cpuinfo",
        "processor\t: 0\nmodel name\t: Test CPU\nmicrocode\t: 0x42\nflags\t\t: fpu hypervisor x\n");
  put("/proc/meminfo", "MemTotal:       2097152 kB\n");
  put("/proc/loadavg", "1.50 1 1 1/1 1\n");
  put("/proc/sys/kernel/osrelease", "6.1.0\n");
  put("/sys/devices/system/cpu/online", "0-3,8\n");
  put("/sys/devices/system/cpu/isolated", "2-3\n");
  put("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,8\n");
  put("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
  put("/sys/devices/system/cpu/intel_pstate/no_turbo", "1\n");
  put("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  const DeviceFacts facts = read_device_facts(folder_);
  EXPECT_EQ(facts.cpu, "Test CPU");
  EXPECT_EQ(facts.microcode, "0x42");
  EXPECT_EQ(facts.hypervisor, "yes");
  EXPECT_EQ(facts.kernel, "6.1.0");
  EXPECT_EQ(facts.isolated_cpus, "2-3");
  EXPECT_EQ(facts.processors, 5);
  EXPECT_EQ(facts.threads_per_core, 2);
  EXPECT_EQ(facts.memory_mib, 2048);
  EXPECT_EQ(facts.governor, "powersave");
  EXPECT_EQ(facts.turbo, "off");
  EXPECT_EQ(facts.huge_pages, "madvise");
  EXPECT_EQ(facts.load, 1.5);
}

TEST_F(Facts, OnlyStableOnesEnterTheFingerprint) {
  DeviceFacts facts;
  facts.cpu = "a";
  const std::string before = device_fingerprint(facts);
  EXPECT_EQ(before.size(), 64u);
  facts.load = 7;
  facts.governor = "performance";
  EXPECT_EQ(device_fingerprint(facts), before);
  facts.microcode = "0x43";
  EXPECT_NE(device_fingerprint(facts), before);
}

TEST_F(Facts, SurviveTheirJson) {
  DeviceFacts facts = read_device_facts();
  facts.load = 0.25;
  const absl::StatusOr<DeviceFacts> back = parse_device_facts(to_json(facts));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, facts);
  for (const char* bad : {"", "[]", "{}", R"({"stable":1,"volatile":{}})",
                          R"({"stable":{"architecture":5},"volatile":{"load":1}})"}) {
    EXPECT_EQ(parse_device_facts(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

nlohmann::json evidence(const Hygiene& hygiene, const std::vector<double>& samples) {
  return nlohmann::json::parse("{" + hygiene.json({1, 2, 3}, samples) + "," +
                               hygiene.constant_json() + "}");
}

TEST(HygieneTest, EvidenceIsJsonAndSaysWhatIsNotApplied) {
  Hygiene hygiene({}, allowed_cpus(), {"namespaces: refused"});
  EXPECT_TRUE(hygiene.begin(0));
  hygiene.end(0);
  const nlohmann::json json = evidence(hygiene, {1, 1.01, 0.99, 1, 9});
  EXPECT_EQ(json["switches"], nlohmann::json({1, 2}));
  EXPECT_EQ(json["major_faults"], 3);
  EXPECT_EQ(json["outliers"], 1);
  EXPECT_GT(json["reference_us"].get<double>(), 0);
  EXPECT_EQ(json["host"]["device"], device_fingerprint(read_device_facts()));
  EXPECT_THAT(json["hygiene_flags"].dump(), HasSubstr("namespaces: refused"));
}

TEST(HygieneTest, ASlowMachineIsThrottledButNotForEver) {
  HygieneOptions options;
  options.baseline_us = 1e-3;  // no machine is that fast
  options.max_discards = 2;
  Hygiene hygiene(options, allowed_cpus(), {});
  EXPECT_FALSE(hygiene.begin(0));
  EXPECT_FALSE(hygiene.begin(0));
  EXPECT_TRUE(hygiene.begin(0));
  EXPECT_EQ(evidence(hygiene, {1})["drift_accepted"], true);
}

TEST(HygieneTest, DriftIsRecordedEvenWhenNothingIsDiscarded) {
  HygieneOptions options;
  options.baseline_us = 1e-3;
  options.drift_limit = 0;
  Hygiene hygiene(options, allowed_cpus(), {});
  EXPECT_TRUE(hygiene.begin(0));
  EXPECT_GT(evidence(hygiene, {1})["drift"].get<double>(), 1);
}

using LockTest = Folder;

TEST_F(LockTest, ExcludesEveryoneElseAndNamesTheHolder) {
  const std::string folder = folder_ + "/locks";
  {
    absl::StatusOr<DeviceLock> lock = DeviceLock::acquire("cpu:0-3", folder);
    ASSERT_TRUE(lock.ok()) << lock.status();
    const absl::Status second = DeviceLock::acquire("cpu:0-3", folder).status();
    EXPECT_EQ(second.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(second.message()),
                HasSubstr("in use by process " + std::to_string(getpid()) + " since 20"));
    EXPECT_TRUE(DeviceLock::acquire("cpu:0_3", folder).ok()) << "another device";
    const DeviceLock moved = *std::move(lock);
    EXPECT_FALSE(DeviceLock::acquire("cpu:0-3", folder).ok());
  }
  EXPECT_TRUE(DeviceLock::acquire("cpu:0-3", folder).ok());
}

TEST_F(LockTest, AKilledHolderHoldsNothing) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    const bool held = DeviceLock::acquire("d", folder_).ok();
    const absl::StatusOr<DeviceLock> lock = DeviceLock::acquire("e", folder_);
    if (!held || !lock.ok() || ::write(ready[1], "x", 1) != 1) _exit(1);
    while (true) pause();
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_THAT(std::string(DeviceLock::acquire("e", folder_).status().message()),
              HasSubstr("process " + std::to_string(pid)));
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  EXPECT_TRUE(DeviceLock::acquire("e", folder_).ok());
}

TEST_F(LockTest, FoldersThatOthersMayWriteAreRefused) {
  const std::string open_to_all = folder_ + "/open";
  ASSERT_EQ(mkdir(open_to_all.c_str(), 0700), 0);
  ASSERT_EQ(chmod(open_to_all.c_str(), 0777), 0);
  EXPECT_EQ(DeviceLock::acquire("d", open_to_all).status().code(),
            absl::StatusCode::kFailedPrecondition);
  const std::string link = folder_ + "/link";
  fs::create_directory_symlink(folder_, link);
  EXPECT_FALSE(DeviceLock::acquire("d", link).ok());
  const absl::StatusOr<DeviceLock> lock = DeviceLock::acquire("../../etc/x y", folder_);
  ASSERT_TRUE(lock.ok());
  EXPECT_EQ(fs::path(lock->path()).parent_path(), folder_);
  struct stat facts {};
  ASSERT_EQ(stat(lock->path().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
}

}  // namespace
}  // namespace lw
