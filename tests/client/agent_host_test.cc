// Devices and their hosts: a real one on this machine, and one that dies as it is told to. This
// program is its own device host.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "src/agent/describe.h"
#include "src/agent/host.h"
#include "src/agent/job.h"
#include "src/agent/runner.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/parallel_pool.h"
#include "src/measure/cpu/emulator.h"
#include "src/measure/machine/device_lock.h"
#include "src/measure/machine/hygiene.h"
#include "src/measure/process/ipc.h"
#include "tests/support/agent_fixture.h"
#include "tests/support/program.h"

namespace lw {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::vector<std::string> host_command() { return {"/proc/self/exe", "device-host"}; }

RunHooks quiet_hooks() {
  RunHooks hooks;
  hooks.phase = [](v1::JobPhase) {};
  hooks.stopped = [] { return false; };
  return hooks;
}

constexpr uint64_t kDiesPreparing = 666;

// A host for devices named "fragile...": it dies of traces "die", once of "die once FILE", hangs in
// "hang", and finds everything else well.
int fragile_host_main() {
  while (true) {
    const absl::StatusOr<Message> message = receive_message(kHostSocket);
    if (!message.ok()) return 0;
    if (static_cast<HostMessage>(message->type) != HostMessage::kRun) continue;
    v1::Job job;
    job.ParseFromString(message->payload);
    if (job.seed() == kDiesPreparing) _exit(9);
    const std::string phase = Writer().put<int32_t>(v1::JOB_PHASE_MEASURING).bytes();
    if (!send_message(kHostSocket, static_cast<uint32_t>(HostMessage::kPhase), phase).ok())
      return 0;
    for (const v1::CandidateSpec& spec : job.candidates()) {
      if (spec.trace() == "die") _exit(9);
      if (spec.trace() == "hang") pause();
      if (spec.trace().rfind("die once ", 0) == 0) {
        const std::string file = spec.trace().substr(9);
        if (!fs::exists(file)) {
          std::ofstream(file) << "died";
          _exit(9);
        }
      }
      v1::CandidateOutcome outcome = failed_candidate(spec.index(), v1::VERDICT_TIMEOUT, "well");
      const std::string bytes = outcome.SerializeAsString();
      if (!send_message(kHostSocket, static_cast<uint32_t>(HostMessage::kOutcome), bytes).ok()) {
        return 0;
      }
    }
    const std::string done = v1::JobResult().SerializeAsString();
    if (!send_message(kHostSocket, static_cast<uint32_t>(HostMessage::kFinished), done).ok()) {
      return 0;
    }
  }
}

std::string temporary_folder() {
  std::string path = (fs::temp_directory_path() / "lw_agent_XXXXXX").string();
  return mkdtemp(path.data());
}

DeviceSpec fragile_device() {
  DeviceSpec spec = *parse_device("cpu,name=fragile");
  spec.cpus = {0};
  return spec;
}

// device-host --device NAME --threads N, as the agent starts it.
const EntryPoint kDeviceHost("device-host", [](int argc, char** argv) {
  CHECK(argc == 6);
  const std::string device = argv[3];
  if (device.find("fragile") != std::string::npos) return fragile_host_main();
  return device_host_main(device, std::stoi(argv[5]));
});

class Host : public testing::Test {
 protected:
  void SetUp() override {
    set_log_level(Level::kError);
    setenv("XDG_RUNTIME_DIR", locks_.c_str(), 1);
  }
  void TearDown() override { fs::remove_all(locks_); }

  const std::string locks_ = temporary_folder();  // locks of this program alone
};

TEST_F(Host, DeathsAreChargedToWhoCausesThem) {
  const std::string folder = temporary_folder();
  const std::unique_ptr<DeviceRunner> runner = make_device_runner(fragile_device(), host_command());
  const v1::Job job =
      make_job("jobs/1", "fragile", {"a", "die", "b", concat("die once ", folder, "/x"), "c"});
  const v1::JobResult result = runner->run(job, quiet_hooks());
  EXPECT_EQ(result.failure(), v1::VERDICT_UNSPECIFIED) << result.failure_detail();
  ASSERT_EQ(result.outcomes_size(), 5);
  for (int i : {0, 2, 3, 4}) EXPECT_EQ(result.outcomes(i).measurement().detail(), "well") << i;
  EXPECT_EQ(result.outcomes(1).measurement().verdict(), v1::VERDICT_CRASH);
  EXPECT_THAT(result.outcomes(1).measurement().detail(), HasSubstr("twice, alone"));
  fs::remove_all(folder);
}

TEST_F(Host, OneThatHangsIsKilledAndReplaced) {
  const std::unique_ptr<DeviceRunner> runner = make_device_runner(fragile_device(), host_command());
  const double begin = now();
  RunHooks hooks = quiet_hooks();
  hooks.stopped = [begin] { return now() > begin + 0.2; };
  EXPECT_TRUE(runner->run(make_job("jobs/1", "fragile", {"hang"}), hooks).abandoned());
  const v1::JobResult next = runner->run(make_job("jobs/2", "fragile", {"a"}), quiet_hooks());
  EXPECT_EQ(next.outcomes_size(), 1);
}

TEST_F(Host, AProgramThatIsNoneFailsTheJob) {
  const std::unique_ptr<DeviceRunner> runner =
      make_device_runner(fragile_device(), {"/nonexistent/loopwright"});
  const v1::JobResult result = runner->run(make_job("jobs/1", "fragile", {"a"}), quiet_hooks());
  EXPECT_EQ(result.failure(), v1::VERDICT_WORKER_LOST);
}

TEST_F(Host, DeathsBeforeAnyCandidatesTurnChargeNone) {
  const std::unique_ptr<DeviceRunner> runner = make_device_runner(fragile_device(), host_command());
  v1::Job job = make_job("jobs/1", "fragile", {"a"});
  job.set_seed(kDiesPreparing);
  const v1::JobResult result = runner->run(job, quiet_hooks());
  EXPECT_EQ(result.failure(), v1::VERDICT_WORKER_LOST);
  EXPECT_EQ(result.outcomes_size(), 0);
}

TEST_F(Host, AProcessorIsOneDevicesOnly) {
  const int cpu = allowed_cpus()[0];
  DeviceSpec spec = *parse_device("cpu,name=second");
  spec.cpus = {cpu};
  std::optional<DeviceLock> first = *DeviceLock::acquire(concat("cpu:", cpu));
  const std::unique_ptr<DeviceRunner> runner = make_device_runner(spec, host_command());
  const absl::StatusOr<v1::Device> refused = runner->describe("", /*refresh=*/false);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr(concat("in use by process ", getpid())));
  const v1::JobResult result = runner->run(make_job("jobs/1", "second", {""}), quiet_hooks());
  EXPECT_EQ(result.failure(), v1::VERDICT_DEVICE_UNHEALTHY);
  EXPECT_THAT(result.failure_detail(), HasSubstr("in use by process"));
  first.reset();
  const absl::StatusOr<v1::Device> device = runner->describe("", /*refresh=*/false);
  EXPECT_TRUE(device.ok()) << device.status();
}

TEST_F(Host, ADriversDeviceIsOneAgentsOnly) {
  setenv("LOOPWRIGHT_OPENCL", LW_BINARY_DIR "/libfake_opencl.so", 1);
  setenv("LW_FAKE_OPENCL", "", 1);
  setenv("XDG_STATE_HOME", temporary_folder().c_str(), 1);
  const DeviceSpec spec = *parse_device("opencl:0,name=second");
  std::optional<DeviceLock> first = *DeviceLock::acquire("opencl:Fake board");
  const std::unique_ptr<DeviceRunner> runner = make_device_runner(spec, host_command());
  const absl::StatusOr<v1::Device> refused = runner->describe("", /*refresh=*/false);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr(concat("device 'opencl:Fake board' is in use by process ", getpid())));
  first.reset();
  const absl::StatusOr<v1::Device> device = runner->describe("", /*refresh=*/false);
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ(device->target().name(), "opencl:fake-board");
  unsetenv("XDG_STATE_HOME");
  unsetenv("LOOPWRIGHT_OPENCL");
  unsetenv("LW_FAKE_OPENCL");
}

// A real device, through a real server: machine code, measured and verified.
TEST_F(Host, MeasuresOnThisMachine) {
  const absl::StatusOr<Target> host = find_target("host");
  if (!host.ok()) GTEST_SKIP() << host.status();
  const std::string folder = temporary_folder();
  FakeServer server;
  RunningAgent agent(server, {"cpu:1,name=here"}, folder);
  ASSERT_TRUE(server.until_calls(1));
  const v1::Device device = server.requests()[0].devices(0).description();
  v1::Job job = make_job("jobs/1", "here", {"", kTiled, "split(C, nothing; 2)"});
  *job.mutable_target() = device.target();
  server.give_job(job);
  job.set_name("jobs/2");
  job.mutable_candidates()->RemoveLast();
  job.set_kind(v1::JOB_KIND_COMPARE);
  server.give_job(job);
  ASSERT_TRUE(server.until_results(2));
  const v1::JobResult result = server.results()[0];
  EXPECT_EQ(result.failure(), v1::VERDICT_UNSPECIFIED) << result.failure_detail();
  ASSERT_EQ(result.outcomes_size(), 3);
  for (int i : {0, 1}) {
    const absl::StatusOr<Measurement> m = from_proto(result.outcomes(i).measurement());
    ASSERT_TRUE(m.ok()) << m.status();
    EXPECT_EQ(m->verdict, Verdict::kOk) << m->detail;
    EXPECT_TRUE(m->verified);
    EXPECT_GT(m->time_us, 0);
    EXPECT_GT(m->build_s, 0);
    EXPECT_THAT(m->environment, HasSubstr("cpus"));
    EXPECT_THAT(m->environment, HasSubstr("\"isolation\":{"));
    EXPECT_THAT(m->environment, HasSubstr("\"hygiene_flags\":["));
    EXPECT_THAT(m->environment, HasSubstr(device_fingerprint(read_device_facts())));
  }
  EXPECT_EQ(result.outcomes(2).measurement().verdict(), v1::VERDICT_BUILD_ERROR);
  ASSERT_EQ(server.results()[1].outcomes_size(), 2);
  EXPECT_EQ(server.results()[1].outcomes(0).measurement().samples_us_size(), 3);
  // The second job found the measurer prepared.
  EXPECT_LT(server.results()[1].prepare_time().nanos(), result.prepare_time().nanos());
  agent.signals = 1;
  EXPECT_TRUE(agent.join().ok()) << agent.status;

  // Another run remembers what this one measured.
  EXPECT_EQ(device.kind(), "cpu");
  EXPECT_FALSE(device.exact());
  EXPECT_EQ(device.target().cores(), 1);
  EXPECT_THAT(device.facts(), HasSubstr("gflops"));
  EXPECT_THAT(device.facts(), HasSubstr("\"isolation\": {"));
  EXPECT_THAT(device.facts(), HasSubstr(device_fingerprint(read_device_facts())));
  std::vector<DeviceSpec> specs = {*parse_device("cpu:1,name=here")};
  ASSERT_TRUE(assign_devices("test", allowed_cpus(), &specs).ok());
  const std::unique_ptr<DeviceRunner> again = make_device_runner(specs[0], host_command());
  const absl::StatusOr<v1::Device> remembered = again->describe(folder, /*refresh=*/false);
  ASSERT_TRUE(remembered.ok()) << remembered.status();
  EXPECT_EQ(remembered->facts(), device.facts());
  EXPECT_EQ(remembered->fingerprint(), device.fingerprint());
  EXPECT_EQ(fingerprint(specs[0]), device.fingerprint());  // of a process that is not confined
  fs::remove_all(folder);
}

}  // namespace
}  // namespace lw
