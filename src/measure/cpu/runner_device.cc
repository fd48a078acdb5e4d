// A processor that lw_runner runs kernels on, under an emulator or far away: each run is a job, and
// the outputs that it returns are copied to where the parent looks for them.
//
// A kernel that crashed there has said where. This process then writes down what a crash of its own
// would have left on the control page, and dies: the parent judges both alike.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "absl/strings/str_cat.h"
#include "src/base/check.h"
#include "src/measure/cpu/devices.h"
#include "src/measure/process/sandbox.h"
#include "src/measure/run/runner.h"
#include "src/measure/workers/workbench.h"

namespace lw {
namespace {

constexpr uint64_t kImageRoom = uint64_t{1} << 30;  // for each slot's

struct Slot {
  Artifact artifact;
  FlatImage image;
};

class RunnerDevice : public Device {
 public:
  RunnerDevice(Workbench& bench, RunnerLine line)
      : bench_(bench), line_(std::move(line)), page_(bench.control_page(0)) {}

  absl::Status load(int slot, const Artifact& a) override {
    slots_.erase(slot);
    Slot loaded;
    loaded.artifact = a;
    const int64_t needed = workspace_needed(a, bench_.options.threads) + a.packed_bytes;
    if (needed < 0 || needed > bench_.options.memory_limit_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the kernel needs ", needed, " bytes of workspace, the limit is ",
                       bench_.options.memory_limit_bytes));
    }
    const uint64_t base = kImageBase + static_cast<uint64_t>(slot) * kImageRoom;
    ASSIGN_OR_RETURN(loaded.image, link_flat(a, base));
    slots_[slot] = std::move(loaded);
    return absl::OkStatus();
  }

  void unload_all() override { slots_.clear(); }

  absl::Status run(int slot, int set) override {
    ASSIGN_OR_RETURN(const runner::Job job, job_of({slot}, set));
    return ask(job).status();
  }

  absl::StatusOr<Samples> time(int slot, const TimingPlan& plan) override {
    ASSIGN_OR_RETURN(runner::Job job, job_of({slot}, kUniform));
    job.timed = true;
    job.plan = plan;
    ASSIGN_OR_RETURN(std::vector<Samples> samples, ask(job));
    return std::move(samples[0]);
  }

  absl::StatusOr<std::vector<Samples>> interleave(const std::vector<int>& slots, int rounds,
                                                  const TimingPlan& plan) override {
    ASSIGN_OR_RETURN(runner::Job job, job_of(slots, kUniform));
    job.timed = true;
    job.plan = plan;
    job.rounds = static_cast<uint32_t>(rounds);
    return ask(job);
  }

 private:
  absl::StatusOr<runner::Job> job_of(const std::vector<int>& slots, int set) const {
    runner::Job job;
    job.workers = static_cast<uint32_t>(bench_.options.threads);
    for (const int slot : slots) {
      const std::map<int, Slot>::const_iterator it = slots_.find(slot);
      if (it == slots_.end()) return absl::NotFoundError("nothing loaded");
      job.codes.push_back(make_code(it->second.artifact, it->second.image, bench_.options.threads));
    }
    for (size_t i = 0; i < bench_.arguments.size(); ++i) {
      const Argument& a = bench_.arguments[i];
      const SharedMemory& from = a.memory[a.output ? 0 : set];
      runner::Job::Argument argument;
      argument.pages = static_cast<uint64_t>(from.bytes());
      argument.offset = static_cast<uint64_t>(argument_offset(bench_, set, static_cast<int>(i)));
      argument.bytes = static_cast<uint64_t>(a.bytes);
      argument.output = a.output;
      if (!a.output) {
        argument.content = {reinterpret_cast<const char*>(from.data()), argument.pages};
      }
      job.arguments.push_back(argument);
    }
    return job;
  }

  // What was sampled of each code; the outputs are where the parent looks for them then. The parent
  // waits only so long, and kills this process, with which the line ends.
  absl::StatusOr<std::vector<Samples>> ask(const runner::Job& job) {
    const absl::StatusOr<RunnerAnswer> answer = line_.ask(job);
    if (absl::IsUnavailable(answer.status())) return answer.status();
    if (!answer.ok()) lost(answer.status());
    if (answer->type == runner::Frame::kCrash) crash(answer->payload);
    if (answer->type == runner::Frame::kRefusal) {
      return absl::ResourceExhaustedError(answer->payload);
    }
    const std::optional<runner::Result> result = runner::decode_result(answer->payload);
    if (!result) return nonsense("the runner's answer makes no sense");
    if (result->code != 0) return absl::FailedPreconditionError("the kernel refused its context");
    if (!result->intact) return absl::DataLossError("wrote outside its workspace");
    RETURN_IF_ERROR(take_outputs(*result));
    const size_t timed = job.timed ? job.codes.size() : 0;
    if (result->times.size() != timed) return nonsense("the runner's times are not the job's");
    std::vector<Samples> all;
    for (const runner::Result::Times& times : result->times) {
      Samples& samples = all.emplace_back();
      samples.us = times.samples_us;
      samples.inner = times.inner;
      samples.raced_out = times.raced_out;
      samples.inside_s = result->inside_s;
    }
    return all;
  }

  absl::Status take_outputs(const runner::Result& result) {
    size_t next = 0;
    for (Argument& a : bench_.arguments) {
      if (!a.output) continue;
      if (next >= result.outputs.size() ||
          static_cast<int64_t>(result.outputs[next].size()) != a.memory[0].bytes()) {
        return nonsense("the runner's outputs are not the program's");
      }
      std::memcpy(a.memory[0].data(), result.outputs[next].data(), result.outputs[next].size());
      ++next;
    }
    return absl::OkStatus();
  }

  absl::Status nonsense(const char* what) const { return absl::Status(line_.nonsense, what); }

  // The runner is gone and has not said why: a crash of the kernel if it died by itself, else
  // nobody's fault.
  [[noreturn]] void lost(const absl::Status& status) {
    if (absl::IsAborted(status)) page_->signal = SIGABRT;
    die();
  }

  [[noreturn]] void crash(const std::string& payload) {
    page_->signal = SIGSEGV;  // should what follows make no sense
    if (const std::optional<runner::Crash> crash = runner::decode_crash(payload)) {
      page_->regions = 0;
      for (const runner::Region& r : crash->regions) add_region(r);
      page_->wrote = crash->wrote;
      page_->address = crash->address;
      page_->signal = crash->signal;
    }
    die();
  }

  void add_region(const runner::Region& from) {
    if (page_->regions >= ControlPage::kRegions) return;
    const int arguments = static_cast<int>(bench_.arguments.size());
    const std::string name = from.argument == runner::Region::kWorkspace ? "the workspace"
                             : from.argument == runner::Region::kPacked  ? "the packed operands"
                             : from.argument >= 0 && from.argument < arguments
                                 ? bench_.arguments[from.argument].name
                                 : "nothing known";
    ControlPage::Region& to = page_->region[page_->regions++];
    std::strncpy(to.name, name.c_str(), sizeof to.name - 1);
    to.low = from.low;
    to.begin = from.begin;
    to.end = from.end;
    to.high = from.high;
  }

  [[noreturn]] static void die() {
    raise(SIGKILL);
    _exit(1);
  }

  Workbench& bench_;
  const RunnerLine line_;
  ControlPage* page_;
  std::map<int, Slot> slots_;
};

}  // namespace

std::unique_ptr<Device> make_runner_device(Workbench& bench, RunnerLine line) {
  return std::make_unique<RunnerDevice>(bench, std::move(line));
}

DeviceDriver emulated_driver(Emulator emulator) {
  DeviceDriver driver;
  driver.clock = Clock::kNone;
  driver.time_kind = TimeKind::kEstimated;
  driver.stands_in = emulator.name;
  driver.shut_in = false;                  // it starts the emulator
  driver.open = [emulator](Workbench& bench) -> absl::StatusOr<std::unique_ptr<Device>> {
    RunnerLine line;
    line.ask = [emulator, &bench](const runner::Job& job) {
      int64_t memory = bench.options.memory_limit_bytes;
      // The frame, the tensor, the answer.
      for (const runner::Job::Argument& a : job.arguments) memory += 3 * static_cast<int64_t>(a.pages);
      return ask_runner(emulator, runner::Frame::kJob, runner::encode_job(job), /*timeout_s=*/-1,
                        memory);
    };
    return make_runner_device(bench, std::move(line));
  };
  return driver;
}

}  // namespace lw
