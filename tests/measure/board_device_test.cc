// Processors far away, whose lw_runner is behind a command: timed by its own clock, estimated where an
// emulator runs it, and whatever the program does wrong is nobody's fault but its own.
#include <gmock/gmock.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <thread>

#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/message.h"
#include "src/base/parallel_pool.h"
#include "src/measure/cpu/emulator.h"
#include "src/measure/exec/conformance.h"
#include "src/measure/exec/exec_device.h"
#include "src/runner/protocol.h"
#include "tests/measure/measurer_fixture.h"
#include "tests/support/program.h"

namespace lw {
namespace {

using ::testing::Each;
using ::testing::Gt;
using ::testing::HasSubstr;
using runner::Frame;

std::string machine_here() {
  utsname name;
  CHECK(uname(&name) == 0);
  return name.machine;
}

std::string runner_here() { return concat(LW_BINARY_DIR "/lw_runner_", machine_here()); }

// ---- a program that misbehaves ------------------------------------------------------------------

std::string framed(Frame type, const std::string& payload) {
  runner::Header header;
  header.type = type;
  header.bytes = payload.size();
  return runner::encode_header(header) + payload;
}

std::string result_of(const runner::Job& job, double us) {
  runner::Result result;
  result.inside_s = 1e-9;
  if (job.timed) result.times.resize(job.codes.size(), {{us}});
  static std::string zeros;
  for (const runner::Job::Argument& a : job.arguments) {
    if (a.output) zeros.resize(a.pages);
    if (a.output) result.outputs.push_back(zeros);
  }
  return runner::encode_result(result);
}

void answer_job(const std::string& how, const runner::Job& job) {
  const auto say = [](const std::string& bytes) { std::cout << bytes << std::flush; };
  if (how == "garbage") say("segmentation fault\n");
  if (how == "dies") std::cerr << "no route to host\n", _exit(255);
  if (how == "twice") say(framed(Frame::kResult, result_of(job, 1e5)) + framed(Frame::kHello, ""));
  if (how == "greets") say(framed(Frame::kGreeting, runner::encode_greeting({})));
  if (how == "empty") say(framed(Frame::kResult, ""));
  if (how == "few") say(framed(Frame::kResult, runner::encode_result({})));
  if (how == "negative") say(framed(Frame::kResult, result_of(job, -1)));
  if (how == "huge") say(runner::encode_header({.type = Frame::kResult, .bytes = 1u << 31}));
  if (how == "version") say(std::string("WLR1\1\0\4\0\0\0\0\0\0\0\0\0", 16));
  if (how == "hangs") std::this_thread::sleep_for(std::chrono::seconds(60));
}

// PROGRAM fake-runner HOW [FLAG]: misbehaves so; with a FLAG the first process to be given a job alone,
// which leaves a file of that name; the others are the true one's.
int fake_runner_main(int argc, char** argv) {
  const std::string how = argc > 2 ? argv[2] : "";
  if (argc > 3 && std::filesystem::exists(argv[3])) {
    const std::string program = runner_here();
    execl(program.c_str(), program.c_str(), nullptr);
  }
  std::string head(runner::kHeaderBytes, '\0');
  while (std::cin.read(head.data(), static_cast<std::streamsize>(head.size()))) {
    const std::optional<runner::Header> header = runner::decode_header(head);
    if (!header) return 1;
    std::string payload(header->bytes, '\0');
    std::cin.read(payload.data(), static_cast<std::streamsize>(payload.size()));
    if (header->type == Frame::kJob) {
      if (argc > 3) write_file(argv[3], "").IgnoreError();
      answer_job(how, *runner::decode_job(payload));
      continue;
    }
    runner::Greeting greeting{4096, 2, how == "other" ? "z80" : machine_here()};
    if (argc > 3) greeting.cpu = argv[4];  // as the true one's
    std::cout << framed(Frame::kGreeting, runner::encode_greeting(greeting)) << std::flush;
  }
  return 0;
}
const EntryPoint fake_board("fake-runner", fake_runner_main);

std::string fake_runner(const std::string& how) { return own_program() + " fake-runner " + how; }

// ---- measuring on it ----------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<Measurer>> board(const std::string& command,
                                                LocalOptions options = quick(),
                                                const Target& on = target("llvm")) {
  options.exec = command;
  return make_local_measurer(program(), on, options);
}

Outcome once(Measurer& measurer, const std::string& text = kGood) {
  measurer.submit({candidate(7, text)});
  return collect(measurer, 1)[7];
}

Outcome once_measured(const std::string& command) {
  absl::StatusOr<std::unique_ptr<Measurer>> measurer = board(command);
  EXPECT_TRUE(measurer.ok()) << measurer.status();
  return measurer.ok() ? once(**measurer) : Outcome();
}

TEST(BoardDevice, TimesByItsOwnClock) {
  for (const Cache cache : {Cache::kWarm, Cache::kCold}) {
    LocalOptions options = quick();
    options.cache = cache;
    const std::unique_ptr<Measurer> measurer = *board(runner_here(), options);
    EXPECT_EQ(measurer->time_kind(), TimeKind::kMeasured);
    const Outcome outcome = once(*measurer);
    EXPECT_EQ(outcome.verdict, Verdict::kOk) << outcome.detail;
    EXPECT_TRUE(outcome.verified);
    EXPECT_GT(outcome.samples_us.size(), 1u);
    EXPECT_THAT(outcome.samples_us, Each(Gt(0)));
    EXPECT_EQ(cache == Cache::kCold, outcome.inner == 1);
    EXPECT_NE(outcome.time_us, 7.5);       // the candidate's estimate
    EXPECT_EQ(outcome.time_kind, TimeKind::kMeasured);
    EXPECT_THAT(outcome.environment, HasSubstr("{\"board\":\"" + machine_here()));
    EXPECT_THAT(outcome.environment, HasSubstr(concat("\"cache\":\"", cache_name(cache))));
    EXPECT_THAT(outcome.environment, ::testing::Not(HasSubstr("load")));
  }
}

TEST(BoardDevice, HasThreadsOfItsOwn) {
  LocalOptions options = quick();
  options.threads = static_cast<int>(allowed_cpus().size());
  EXPECT_EQ(once(**board(runner_here(), options)).verdict, Verdict::kOk);
  ++options.threads;
  const absl::Status refused = board(runner_here(), options).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr(concat(" threads, on ", options.threads - 1)));
}

// Nobody's clock is believed of whom it is said not to be.
TEST(BoardDevice, WithoutAClockItsTimesAreEstimates) {
  LocalOptions options = quick();
  options.exec_clock = false;
  const std::unique_ptr<Measurer> measurer = *board(runner_here(), options);
  EXPECT_EQ(measurer->time_kind(), TimeKind::kEstimated);
  const Outcome outcome = once(*measurer);
  EXPECT_TRUE(outcome.verified) << outcome.detail;
  EXPECT_EQ(outcome.samples_us, std::vector<double>{7.5});
  const absl::StatusOr<ExecFacts> facts = exec_device_facts(runner_here(), false, target("llvm"));
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->time_kind, TimeKind::kEstimated);
}

TEST(BoardDevice, IsFoundOutWhereAnEmulatorRunsIt) {
  const Target arm = *find_target("aarch64_neon");
  const absl::StatusOr<Emulator> emulator = find_emulator(arm);
  if (!emulator.ok()) GTEST_SKIP() << "[SKIP] " << emulator.status();
  const std::string command = concat(emulator->command, " ", emulator->runner);
  const absl::StatusOr<ExecFacts> facts = exec_device_facts(command, true, arm);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->time_kind, TimeKind::kEstimated);
  EXPECT_EQ(facts->json, "{\"emulated\":true,\"estimated\":true,\"emulator\":\"qemu-aarch64\"}");
  LocalOptions options = quick();
  options.run_timeout_s = 20;
  const std::unique_ptr<Measurer> measurer = *board(command, options, arm);
  EXPECT_EQ(measurer->time_kind(), TimeKind::kEstimated);
  const Outcome outcome = once(*measurer);
  EXPECT_EQ(outcome.verdict, Verdict::kOk) << outcome.detail;
  EXPECT_TRUE(outcome.verified);
  EXPECT_EQ(outcome.samples_us, std::vector<double>{7.5});  // never the emulator's clock
  EXPECT_THAT(outcome.environment, HasSubstr("\"emulated\":true,\"emulator\":\"qemu-aarch64\""));
}

TEST(BoardDevice, WhatItDoesWrongHasItsNameAndIsItsOwnFault) {
  const std::pair<const char*, const char*> rows[] = {
      {"garbage", "its answer is no frame: no frame begins with 'segmentation fau'"},
      {"dies", "it has ended (exit status 255): no route to host"},
      {"greets", "its answer makes no sense"},
      {"empty", "its answer makes no sense"},
      {"few", "its answer makes no sense"},
      {"negative", "samples of -0.000001 s in a request of "},
      {"huge", "its answer is no frame: 2147483648 bytes; there may be "},
      {"version", "its frames are of another version"}};
  for (const auto& [how, why] : rows) {
    SCOPED_TRACE(how);
    const Outcome outcome = once_measured(fake_runner(how));
    EXPECT_EQ(outcome.verdict, Verdict::kDeviceUnhealthy);
    EXPECT_THAT(outcome.detail, HasSubstr(why));
    EXPECT_FALSE(outcome.verified);
    EXPECT_TRUE(outcome.samples_us.empty());
  }
}

// Once: the next process is asked the same, and the candidate comes to what it is worth.
TEST(BoardDevice, NothingIsLostOfWhatGoesWrongOnce) {
  for (const char* how : {"garbage", "dies", "twice", "few", "hangs"}) {
    SCOPED_TRACE(how);
    const std::string flag = testing::TempDir() + "/runner_once" + std::to_string(getpid());
    std::string cpu = exec_device_facts(runner_here(), true, target("llvm"))->json;
    cpu = cpu.substr(cpu.find(machine_here()) + machine_here().size() + 1);
    cpu = cpu.substr(0, cpu.find('"'));
    LocalOptions options = quick();
    options.reference = nullptr;           // the candidate is the first that runs
    const std::unique_ptr<Measurer> measurer =
        *board(concat(fake_runner(how), " ", flag, " '", cpu, "'"), options);
    Outcome outcome = once(*measurer);
    if (std::string(how) == "hangs") {     // who cannot be told from a kernel that does
      EXPECT_EQ(outcome.verdict, Verdict::kTimeout);
      outcome = once(*measurer);
    }
    EXPECT_EQ(outcome.verdict, Verdict::kOk) << outcome.detail;
    EXPECT_TRUE(outcome.verified);
    std::filesystem::remove(flag);
  }
}

TEST(BoardDevice, IsRefusedAtOnceWhereItDoesNotGreet) {
  const auto refusal = [](const std::string& command) {
    return std::string(board(command).status().message());
  };
  EXPECT_THAT(refusal(fake_runner("other")), HasSubstr("it runs on z80, not on "));
  EXPECT_THAT(refusal("/no/such/program"), HasSubstr("it has ended (exit status 127): "));
  EXPECT_THAT(refusal("echo hello"), HasSubstr("no frame begins with 'hello"));
  EXPECT_THAT(refusal("true"), HasSubstr("exec device 'true': it has ended (exit status 0)"));
  EXPECT_THAT(refusal(LW_BINARY_DIR "/npu_sim exec"), HasSubstr("exec device '"));
}

// ---- `device check` -----------------------------------------------------------------------------

std::map<std::string, DeviceCheck> board_checks(const std::string& command) {
  const auto checks = check_exec_device(command, target("llvm"), /*limit_s=*/20);
  EXPECT_TRUE(checks.ok()) << checks.status();
  std::map<std::string, DeviceCheck> by_name;
  if (checks.ok()) {
    for (const DeviceCheck& one : *checks) by_name[one.name] = one;
  }
  return by_name;
}

TEST(BoardChecks, PassOnTheRunner) {
  const std::map<std::string, DeviceCheck> checks = board_checks(runner_here());
  EXPECT_EQ(checks.size(), 10u);
  for (const auto& [name, check] : checks) {
    EXPECT_EQ(check.end, CheckEnd::kPassed) << name << ": " << check.detail;
  }
}

TEST(BoardChecks, FindWhatIsWrong) {
  std::map<std::string, DeviceCheck> checks = board_checks(fake_runner("twice"));
  EXPECT_EQ(checks.at("greets").end, CheckEnd::kPassed);
  EXPECT_EQ(checks.at("computes").end, CheckEnd::kFailed);
  EXPECT_EQ(checks.at("crashes").end, CheckEnd::kFailed);
  EXPECT_EQ(checks.at("broken-program").end, CheckEnd::kFailed);
  checks = board_checks(fake_runner("other"));
  EXPECT_EQ(checks.at("greets").end, CheckEnd::kFailed);
  EXPECT_EQ(checks.at("times").end, CheckEnd::kSkipped);
}

}  // namespace
}  // namespace lw
