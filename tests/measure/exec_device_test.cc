// Devices that are somebody else's programs: the simulator behind the protocol gives what it gives
// without, and whatever such a program does wrong has its name, is nobody's fault but its own, and
// costs nothing else.
#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <iostream>
#include <thread>

#include "src/base/files.h"
#include "src/exec/frames.h"
#include "src/exec/heads.h"
#include "src/measure/exec/conformance.h"
#include "src/measure/exec/exec_device.h"
#include "src/measure/exec/program.h"
#include "tests/measure/npu_modules.h"
#include "tests/support/program.h"

namespace lw {
namespace {

using ::testing::HasSubstr;

// ---- a program that misbehaves ------------------------------------------------------------------

constexpr double kTime_ns = 1e6;           // that it says where it says nothing worse

void say(const exec::Answer& answer, const std::string& body = "") {
  if (!exec::write_frame(1, exec::print(answer), body).ok()) _exit(9);
}

void say_raw(const std::string& head) {
  if (!exec::write_frame(1, head, "").ok()) _exit(9);
}

void answer_job(const std::string& how, int64_t id, bool outputs) {
  const exec::Answer good{id, exec::Result{false, {kTime_ns}, {}}};
  const std::string start = "{\"type\":\"result\",\"id\":" + std::to_string(id);
  if (how == "times" || (how == "few" && !outputs)) return say(good);
  if (how == "garbage") {
    std::cout << "simulating...\n" << std::flush;
  } else if (how == "dies") {
    std::cerr << "starting\nno licence left\n";
    _exit(3);
  } else if (how == "crashes") {
    std::abort();
  } else if (how == "closes") {
    close(1);
    std::this_thread::sleep_for(std::chrono::seconds(60));
  } else if (how == "no-json") {
    say_raw("{\"type\":\"result\"");
  } else if (how == "nan") {
    say_raw(start + ",\"cycles\":NaN}");
  } else if (how == "null") {
    say_raw(start + ",\"cycles\":null}");
  } else if (how == "negative") {
    say_raw(start + ",\"cycles\":-5}");
  } else if (how == "below") {
    say_raw(start + ",\"cycles\":847}");   // of 848 that DRAM takes
  } else if (how == "twice") {
    // In one write: who has read the first finds the second there.
    const std::string head = exec::print(good);
    const std::string frame = exec::encode_frame_header({head.size(), 0}) + head;
    std::cout << frame + frame << std::flush;
  } else if (how == "stale") {
    say({id - 1, good.what});
  } else if (how == "greets") {
    say({id, exec::Greeting{.name = "fake"}});
  } else if (how == "huge") {
    std::cout << exec::encode_frame_header({2, uint64_t{1} << 40}) << std::flush;
  } else if (how == "huge-head") {
    std::cout << exec::encode_frame_header({uint64_t{1} << 31, 0}) << std::flush;
  } else if (how == "few" || how == "many") {
    say(good, "abc");
  } else if (how == "failed") {
    say({id, exec::Error{exec::ErrorCode::kFailed, "the board is off"}});
  } else if (how == "refused") {
    say({id, exec::Error{exec::ErrorCode::kRefused, "too many rows"}});
  } else if (how == "wrong") {
    say({id, exec::Error{exec::ErrorCode::kWrongResult, "race: of A"}});
  } else if (how == "limit") {
    say({id, exec::Error{exec::ErrorCode::kDeviceLimit, "64 KiB"}});
  } else if (how == "unknown-code") {
    say_raw("{\"type\":\"error\",\"id\":" + std::to_string(id) +
            ",\"code\":\"sad\",\"message\":\"\"}");
  } else if (how == "late" || how == "hangs") {
    std::this_thread::sleep_for(std::chrono::seconds(how == "late" ? 3 : 60));
    say(good);
  }
}

// PROGRAM fake-exec HOW [FLAG]: misbehaves so; with a FLAG only in the first process that is given
// a job, which leaves a file of that name.
int fake_main(int argc, char** argv) {
  std::string how = argc > 2 ? argv[2] : "times";
  if (argc > 3 && std::filesystem::exists(argv[3])) how = "times";
  if (how == "silent") std::this_thread::sleep_for(std::chrono::seconds(60));
  if (how == "unasked") std::cout << "Simulator 1.0\n" << std::flush;
  while (true) {
    const auto frame = exec::read_frame(0);
    if (!frame.ok()) return 1;
    if (!frame->has_value()) return 0;
    const auto request = exec::parse_request((*frame)->head);
    if (!request.ok()) return 1;
    if (const exec::Job* const job = std::get_if<exec::Job>(&request->what)) {
      if (argc > 3) write_file(argv[3], "").IgnoreError();
      answer_job(how, request->id, job->outputs);
      continue;
    }
    exec::Greeting greeting{.name = "fake", .release = "1"};
    greeting.outputs = how == "few" || how == "twice";
    if (how == "version") greeting.version = 2;
    if (how == "nameless") say_raw("{\"type\":\"hello\",\"id\":1,\"version\":1}");
    else if (how == "unwilling") {
      say({request->id, exec::Error{exec::ErrorCode::kRefused, "not this target"}});
    } else say({request->id, greeting});
  }
}
const EntryPoint fake("fake-exec", fake_main);

std::string fake_command(const std::string& how) { return own_program() + " fake-exec " + how; }

// ---- measuring on it ----------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<Measurer>> make(const std::string& command) {
  LocalOptions options = quick();
  options.exec = command;
  return make_npu_measurer(options);
}

Outcome one(Measurer& measurer, const std::string& name) {
  measurer.submit({candidate(7, npu_kernel(name))});
  return collect(measurer, 1)[7];
}

Outcome measured(const std::string& command) {
  absl::StatusOr<std::unique_ptr<Measurer>> measurer = make(command);
  EXPECT_TRUE(measurer.ok()) << measurer.status();
  return measurer.ok() ? one(**measurer, "good") : Outcome();
}

TEST(ExecDevice, SaysWhatTheSimulatorSaysBitForBit) {
  const std::unique_ptr<Measurer> built_in = *make("");
  const std::unique_ptr<Measurer> outside = *make(LW_BINARY_DIR "/npu_sim exec");
  for (const char* name : {"good", "twice", "short", "beside", "input", "race", "deadlock",
                           "overflow", "empty", "unaligned", "corrupt", "other"}) {
    SCOPED_TRACE(name);
    const Outcome here = one(*built_in, name), there = one(*outside, name);
    EXPECT_EQ(here.verdict, there.verdict) << here.detail << " | " << there.detail;
    EXPECT_EQ(here.detail, there.detail);
    EXPECT_EQ(here.samples_us, there.samples_us);
    EXPECT_EQ(here.verified, there.verified);
    const auto counters = [](const Outcome& outcome) {
      const size_t at = outcome.environment.find("\"counters\"");
      return at == std::string::npos ? "" : outcome.environment.substr(at);
    };
    EXPECT_EQ(counters(here), counters(there));
  }
  EXPECT_THAT(one(*outside, "good").environment, HasSubstr("\"simulator\":\"exec npu_sim "));
}

// One that takes times alone: results are the functional model's.
TEST(ExecDevice, MayLeaveOutputsToTheModel) {
  const std::unique_ptr<Measurer> measurer = *make(fake_command("times"));
  const Outcome good = one(*measurer, "good");
  EXPECT_EQ(good.verdict, Verdict::kOk) << good.detail;
  EXPECT_TRUE(good.verified);
  EXPECT_EQ(good.samples_us, std::vector<double>{kTime_ns / 1000});
  EXPECT_THAT(one(*measurer, "twice").detail, HasSubstr("D["));
  EXPECT_THAT(one(*measurer, "race").detail, HasSubstr("race: "));
}

TEST(ExecDevice, WhatItDoesWrongHasItsNameAndIsItsOwnFault) {
  const std::pair<const char*, const char*> rows[] = {
      {"garbage", "its answer is no frame: no frame begins with 'simulating...\\n"},
      {"dies", "it has ended (exit status 3): no licence left"},
      {"crashes", "it has ended (SIGABRT"},
      {"closes", "it has closed its output"},
      {"no-json", "its answer makes no sense: the head is no object of JSON"},
      {"nan", "its answer makes no sense: the head is no object of JSON"},
      {"null", "it answers without the time that was asked for"},
      {"negative", "its answer makes no sense: cycles: 1 to 10000 positive numbers, not -5"},
      {"below", "says 847 cycles, but no machine of the target takes fewer than 848 (dma)"},
      {"twice", "it answers twice, or what nobody asked"},
      {"stale", "it answers request "},
      {"greets", "it answers a job with a greeting"},
      {"huge", "its answer is no frame: a frame's body of 1099511627776 bytes; there may be 0"},
      {"huge-head", "its answer is no frame: a frame's head of 2147483648 bytes"},
      {"many", "its answer is no frame: a frame's body of 3 bytes; there may be 0"},
      {"few", "it answers with 3 bytes of outputs, not 2560"},
      {"failed", "it says: the board is off"},
      {"unknown-code", "its answer makes no sense: code: refused, wrong_result, device_limit"}};
  for (const auto& [how, why] : rows) {
    SCOPED_TRACE(how);
    const Outcome outcome = measured(fake_command(how));
    EXPECT_EQ(outcome.verdict, Verdict::kDeviceUnhealthy);
    EXPECT_THAT(outcome.detail, HasSubstr(why));
    EXPECT_FALSE(outcome.verified);
    EXPECT_TRUE(outcome.samples_us.empty());
  }
}

TEST(ExecDevice, WhatItSaysOfAProgramIsTheProgramsFault) {
  const std::tuple<const char*, Verdict, const char*> rows[] = {
      {"refused", Verdict::kBuildError, "too many rows"},
      {"wrong", Verdict::kWrongResult, "race: of A"},
      {"limit", Verdict::kDeviceLimit, "64 KiB"}};
  for (const auto& [how, verdict, why] : rows) {
    const Outcome outcome = measured(fake_command(how));
    EXPECT_EQ(outcome.verdict, verdict) << how;
    EXPECT_EQ(outcome.detail, why);
  }
}

// Nobody can tell a device that hangs from a program that does; a late answer reaches nobody.
TEST(ExecDevice, WhatDoesNotAnswerIsATimeout) {
  for (const char* how : {"hangs", "late"}) {
    const std::string flag = testing::TempDir() + "/exec_" + how + std::to_string(getpid());
    const std::unique_ptr<Measurer> measurer = *make(fake_command(how) + " " + flag);
    const Outcome first = one(*measurer, "good");
    EXPECT_EQ(first.verdict, Verdict::kTimeout) << how;
    EXPECT_THAT(first.detail, HasSubstr("took longer than"));
    const Outcome second = one(*measurer, "good");
    EXPECT_EQ(second.verdict, Verdict::kOk) << second.detail;
    EXPECT_EQ(second.samples_us, std::vector<double>{kTime_ns / 1000});
    std::filesystem::remove(flag);
  }
}

// Once: the next process is asked the same, and the candidate comes to what it is worth.
TEST(ExecDevice, NothingIsLostOfWhatGoesWrongOnce) {
  for (const char* how : {"garbage", "dies", "crashes", "nan", "below", "twice", "stale", "huge"}) {
    SCOPED_TRACE(how);
    const std::string flag = testing::TempDir() + "/exec_once" + std::to_string(getpid());
    const Outcome outcome = measured(fake_command(how) + " " + flag);
    EXPECT_EQ(outcome.verdict, Verdict::kOk) << outcome.detail;
    EXPECT_TRUE(outcome.verified);
    std::filesystem::remove(flag);
  }
}

TEST(ExecDevice, IsRefusedAtOnceWhereItDoesNotGreet) {
  const auto refusal = [](const std::string& command) {
    return std::string(make(command).status().message());
  };
  EXPECT_THAT(refusal(fake_command("version")), HasSubstr("it speaks version 2 of the protocol"));
  EXPECT_THAT(refusal(fake_command("nameless")), HasSubstr("name: a text, and is missing"));
  EXPECT_THAT(refusal(fake_command("unwilling")), HasSubstr("it refuses to serve: not this"));
  EXPECT_THAT(refusal(fake_command("unasked")), HasSubstr("no frame begins with 'Simulator 1.0"));
  EXPECT_THAT(refusal("/no/such/program"), HasSubstr("it has ended (exit status 127): "));
  EXPECT_THAT(refusal("echo hello"), HasSubstr("no frame begins with 'hello"));
  EXPECT_THAT(refusal("true"), HasSubstr("exec device 'true': it has ended (exit status 0)"));
}

TEST(ExecProgram, DiesWithWhatItStarted) {
  pid_t child = 0;
  {
    // The shell's words: quotes, variables, several commands.
    absl::StatusOr<std::unique_ptr<ExecProgram>> program =
        ExecProgram::start("sh -c 'sleep 600 & echo \"$! LWEX................\"; wait'", "LWEX");
    ASSERT_TRUE(program.ok()) << program.status();
    const std::string refusal((*program)->receive_header(20).status().message());
    const size_t begin = refusal.rfind('\'', refusal.size() - 2) + 1;
    child = std::atoi(refusal.c_str() + begin);
    ASSERT_GT(child, 0) << refusal;
    EXPECT_EQ(kill(child, 0), 0);
  }
  EXPECT_TRUE(eventually([&] {
    std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
    std::string pid, name, state;
    return !(stat >> pid >> name >> state) || state == "Z";
  }));
}

// ---- `device check` -----------------------------------------------------------------------------

std::map<std::string, DeviceCheck> checks_of(const std::string& command,
                                             const std::string& target = "npu_edge16") {
  const auto checks = check_exec_device(command, *find_target(target), /*limit_s=*/20);
  EXPECT_TRUE(checks.ok()) << checks.status();
  std::map<std::string, DeviceCheck> by_name;
  if (checks.ok()) {
    for (const DeviceCheck& one : *checks) by_name[one.name] = one;
  }
  return by_name;
}

TEST(ExecChecks, PassOnTheSimulator) {
  for (const char* target : {"npu_edge16", "npu_mid32", "npu_big128", "npu_onnxim128_bf16"}) {
    for (const auto& [name, check] : checks_of(LW_BINARY_DIR "/npu_sim exec", target)) {
      EXPECT_EQ(check.end, CheckEnd::kPassed) << target << " " << name << ": " << check.detail;
    }
  }
}

TEST(ExecChecks, FindWhatIsWrong) {
  std::map<std::string, DeviceCheck> checks = checks_of(fake_command("twice"));
  EXPECT_EQ(checks.at("greets").end, CheckEnd::kPassed);
  EXPECT_EQ(checks.at("times").end, CheckEnd::kPassed);
  EXPECT_EQ(checks.at("once").end, CheckEnd::kFailed);
  EXPECT_EQ(checks.at("computes").end, CheckEnd::kFailed);
  EXPECT_EQ(checks.at("broken-program").end, CheckEnd::kFailed);
  checks = checks_of(fake_command("negative"));
  EXPECT_EQ(checks.at("computes").end, CheckEnd::kSkipped);
  EXPECT_EQ(checks.at("times").end, CheckEnd::kFailed);
  EXPECT_THAT(checks.at("times").detail, HasSubstr("positive numbers, not -5"));
  checks = checks_of(fake_command("version"));
  EXPECT_EQ(checks.at("greets").end, CheckEnd::kFailed);
  EXPECT_EQ(checks.at("times").end, CheckEnd::kSkipped);
  EXPECT_GE(checks.size(), 14u);
}

}  // namespace
}  // namespace lw
