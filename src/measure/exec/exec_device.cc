#include "src/measure/exec/exec_device.h"

#include <cmath>
#include <cstring>
#include <map>
#include <memory>

#include "absl/strings/str_format.h"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/language/text.h"
#include "src/measure/exec/board_device.h"
#include "src/measure/exec/session.h"
#include "src/measure/npu/npu_device.h"
#include "src/measure/npu/program_facts.h"
#include "src/measure/workers/workbench.h"

namespace lw {
namespace {

constexpr double kRounding = 1e-9;         // of a time that is said in ns

class ExecDevice : public Device {
 public:
  ExecDevice(Workbench& bench, const std::string& command, std::unique_ptr<Device> model)
      : bench_(bench), session_(command, *bench.target), model_(std::move(model)) {
    for (const Argument& a : bench.arguments) {
      job_.arguments.push_back({bench.program->tensors[a.tensor].name, a.bytes, a.output});
    }
    job_.format = "npu_module";
    job_.workload = print(*bench.program);
  }

  absl::Status load(int slot, const Artifact& artifact) override {
    slots_.erase(slot);
    RETURN_IF_ERROR(model_->load(slot, artifact));
    Slot loaded;
    ASSIGN_OR_RETURN(loaded.facts, npu_program_facts(artifact));
    loaded.program = artifact.bytes;
    RETURN_IF_ERROR(greet().status());
    slots_[slot] = std::move(loaded);
    return absl::OkStatus();
  }

  void unload_all() override {
    slots_.clear();
    model_->unload_all();
  }

  absl::StatusOr<Samples> time(int slot, const TimingPlan&) override {
    ASSIGN_OR_RETURN(const Slot* const loaded, find(slot));
    RETURN_IF_ERROR(greet().status());
    exec::Job job = job_of(*loaded);
    job.time = true;
    ASSIGN_OR_RETURN(ExecReply reply, session_.ask(job, {loaded->program}, /*limit_s=*/-1));
    Samples samples;
    for (const double value : reply.result.samples) {
      const double mhz = loaded->facts.clock_mhz;
      const double cycles = reply.result.in_cycles ? value : value * mhz / 1000;
      if (!(cycles >= (1 - kRounding) * loaded->facts.least_cycles)) {
        session_.stop();
        return impossible(cycles, loaded->facts);
      }
      const double ns = reply.result.in_cycles ? value * 1000 / mhz : value;
      samples.us.push_back(ns / 1000);
    }
    samples.counters = std::move(reply.result.counters);
    return samples;
  }

  absl::Status run(int slot, int set) override {
    ASSIGN_OR_RETURN(const Slot* const loaded, find(slot));
    ASSIGN_OR_RETURN(const exec::Greeting greeting, greet());
    if (!greeting.outputs) return model_->run(slot, set);
    exec::Job job = job_of(*loaded);
    job.outputs = true;
    std::vector<std::string_view> body = {loaded->program};
    for (size_t i = 0; i < bench_.arguments.size(); ++i) {
      const Argument& a = bench_.arguments[i];
      if (!a.output) body.emplace_back(data_of(i, set), static_cast<size_t>(a.bytes));
    }
    ASSIGN_OR_RETURN(const ExecReply reply, session_.ask(job, std::move(body), /*limit_s=*/-1));
    std::string_view outputs = reply.body;
    for (size_t i = 0; i < bench_.arguments.size(); ++i) {
      const Argument& a = bench_.arguments[i];
      if (!a.output) continue;
      std::memcpy(data_of(i, set), outputs.data(), static_cast<size_t>(a.bytes));
      outputs.remove_prefix(static_cast<size_t>(a.bytes));
    }
    return absl::OkStatus();
  }

 private:
  struct Slot {
    std::string program;
    NpuProgramFacts facts;
  };

  absl::StatusOr<const Slot*> find(int slot) const {
    const std::map<int, Slot>::const_iterator it = slots_.find(slot);
    if (it == slots_.end()) return absl::NotFoundError("nothing loaded");
    return &it->second;
  }

  // A device that is too slow to greet is no candidate's timeout.
  absl::StatusOr<exec::Greeting> greet() {
    absl::StatusOr<exec::Greeting> greeting = session_.greet(kGreeting);
    if (!absl::IsDeadlineExceeded(greeting.status())) return greeting;
    return absl::UnavailableError(greeting.status().message());
  }

  exec::Job job_of(const Slot& slot) const {
    exec::Job job = job_;
    job.program_bytes = static_cast<int64_t>(slot.program.size());
    return job;
  }

  char* data_of(size_t argument, int set) const {
    const Argument& a = bench_.arguments[argument];
    return reinterpret_cast<char*>(a.memory[a.output ? 0 : set].data()) +
           argument_offset(bench_, set, static_cast<int>(argument));
  }

  static absl::Status impossible(double cycles, const NpuProgramFacts& facts) {
    return absl::UnavailableError(absl::StrFormat(
        "the exec device says %.6g cycles, but no machine of the target takes fewer than %.6g (%s)",
        cycles, facts.least_cycles, std::string(facts.set_by)));
  }

  Workbench& bench_;
  ExecSession session_;
  const std::unique_ptr<Device> model_;    // what it refuses, nobody is asked to run
  exec::Job job_;                          // what all have in common
  std::map<int, Slot> slots_;
};

bool is_board(const Target& target) { return target.architecture != kNpuArchitecture; }

// "NAME RELEASE".
absl::StatusOr<std::string> name_of(const std::string& command, const Target& target) {
  ASSIGN_OR_RETURN(const exec::Greeting greeting,
                   ExecSession(command, target).greet(kFirstGreeting));
  return greeting.release.empty() ? greeting.name : concat(greeting.name, " ", greeting.release);
}

}  // namespace

absl::StatusOr<ExecFacts> exec_device_facts(const std::string& command, bool clock,
                                            const Target& target) {
  if (is_board(target)) return board_facts(command, clock, target);
  ASSIGN_OR_RETURN(const std::string name, name_of(command, target));
  return ExecFacts{name, npu_driver().time_kind,
                   concat("{\"simulated\":true,\"simulator\":\"exec ", name, "\"}")};
}

absl::StatusOr<DeviceDriver> exec_driver(const LocalOptions& options, const Target& target) {
  if (is_board(target)) return board_driver(options, target);
  DeviceDriver driver = npu_driver();
  const std::string command = options.exec;
  ASSIGN_OR_RETURN(driver.stands_in, name_of(command, target));
  driver.stands_in = concat("exec ", driver.stands_in);
  driver.shut_in = false;                  // it starts a program of the user's
  driver.compute = nullptr;                // whose times they are
  const auto open_model = driver.open;
  driver.open = [command, open_model](Workbench& bench)
      -> absl::StatusOr<std::unique_ptr<Device>> {
    ASSIGN_OR_RETURN(std::unique_ptr<Device> model, open_model(bench));
    return std::make_unique<ExecDevice>(bench, command, std::move(model));
  };
  return driver;
}

}  // namespace lw
