#include "src/measure/exec/board_device.h"

#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/measure/cpu/devices.h"
#include "src/measure/exec/runner_session.h"
#include "src/measure/workers/workbench.h"

namespace lw {
namespace {

// The device that greets its line before it is to run anything.
class BoardDevice : public Device {
 public:
  BoardDevice(Workbench& bench, const std::string& command, const runner::Greeting& greeting)
      : session_(command, bench.target->architecture, greeting) {
    RunnerLine line;
    line.ask = [this](const runner::Job& job) -> absl::StatusOr<RunnerAnswer> {
      RETURN_IF_ERROR(greet());
      return session_.ask(job, /*limit_s=*/-1);
    };
    line.nonsense = absl::StatusCode::kUnavailable;
    device_ = make_runner_device(bench, std::move(line));
  }

  absl::Status load(int slot, const Artifact& artifact) override {
    RETURN_IF_ERROR(greet());
    return device_->load(slot, artifact);
  }
  void unload_all() override { device_->unload_all(); }
  absl::Status run(int slot, int set) override { return device_->run(slot, set); }
  absl::StatusOr<Samples> time(int slot, const TimingPlan& plan) override {
    return device_->time(slot, plan);
  }
  absl::StatusOr<std::vector<Samples>> interleave(const std::vector<int>& slots, int rounds,
                                                  const TimingPlan& plan) override {
    return device_->interleave(slots, rounds, plan);
  }

 private:
  // A device that is too slow to greet is no candidate's timeout.
  absl::Status greet() {
    const absl::Status greeted = session_.greet(kGreeting).status();
    return absl::IsDeadlineExceeded(greeted) ? absl::UnavailableError(greeted.message()) : greeted;
  }

  RunnerSession session_;
  std::unique_ptr<Device> device_;
};

absl::StatusOr<runner::Greeting> greet_board(const std::string& command, const Target& target) {
  return RunnerSession(command, target.architecture).greet(kFirstGreeting);
}

// Whose times the cost model's are; "": its own clock's are its.
std::string emulator_of(const runner::Greeting& greeting, bool clock) {
  return clock || !greeting.emulator.empty() ? greeting.emulator : "exec";
}

std::string cpu_of(const runner::Greeting& greeting) {
  return concat(greeting.machine, greeting.cpu.empty() ? "" : " ", greeting.cpu);
}

}  // namespace

absl::StatusOr<ExecFacts> board_facts(const std::string& command, bool clock,
                                      const Target& target) {
  ASSIGN_OR_RETURN(const runner::Greeting greeting, greet_board(command, target));
  ExecFacts facts;
  facts.name = concat(cpu_of(greeting), " ", greeting.system);
  const std::string emulator = emulator_of(greeting, clock);
  if (emulator.empty()) {
    facts.json = concat("{\"board\":\"", cpu_of(greeting), "\",\"processors\":",
                        greeting.processors, ",\"system\":\"", greeting.system, "\"}");
    return facts;
  }
  facts.name += concat(" ", emulator);
  facts.time_kind = TimeKind::kEstimated;
  facts.json = concat("{\"emulated\":true,\"estimated\":true,\"emulator\":\"", emulator, "\"}");
  return facts;
}

absl::StatusOr<DeviceDriver> board_driver(const LocalOptions& options, const Target& target) {
  ASSIGN_OR_RETURN(const runner::Greeting greeting, greet_board(options.exec, target));
  DeviceDriver driver;
  driver.elsewhere = true;
  driver.shut_in = false;                  // it starts a program of the user's
  driver.stands_in = emulator_of(greeting, options.exec_clock);
  if (!driver.stands_in.empty()) {
    driver.clock = Clock::kNone;
    driver.time_kind = TimeKind::kEstimated;
  } else if (options.threads > static_cast<int>(greeting.processors)) {
    return absl::FailedPreconditionError(concat("exec device '", options.exec, "': kernels of ",
                                                options.threads, " threads, on ",
                                                greeting.processors, " processors"));
  } else {
    driver.stands_in = cpu_of(greeting);
  }
  const std::string command = options.exec;
  driver.open = [command, greeting](Workbench& bench) -> absl::StatusOr<std::unique_ptr<Device>> {
    return std::make_unique<BoardDevice>(bench, command, greeting);
  };
  return driver;
}

}  // namespace lw
