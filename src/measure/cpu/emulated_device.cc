// Another architecture's processor, emulated: each run is a job for a runner process of its own, and
// the outputs it returns are copied to where the parent looks for them.
//
// A runner that crashes has said where. This process then writes down what a crash of its own would
// have left on the control page, and dies: the parent judges both alike.
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

struct Slot {
  Artifact artifact;
  FlatImage image;
};

class EmulatedDevice : public Device {
 public:
  EmulatedDevice(Workbench& bench, const Emulator& emulator)
      : bench_(bench), emulator_(emulator), page_(bench.control_page(0)) {}

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
    ASSIGN_OR_RETURN(loaded.image, link_flat(a, kImageBase));
    slots_[slot] = std::move(loaded);
    return absl::OkStatus();
  }

  void unload_all() override { slots_.clear(); }

  absl::Status run(int slot, int set) override {
    const std::map<int, Slot>::const_iterator it = slots_.find(slot);
    if (it == slots_.end()) return absl::NotFoundError("nothing loaded");
    runner::Job job = make_job(it->second.artifact, it->second.image, bench_.options.threads);
    int64_t memory = bench_.options.memory_limit_bytes;
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
      memory += 3 * from.bytes();  // the frame, the tensor, the answer
      job.arguments.push_back(argument);
    }
    // The parent waits only so long, and kills this process, with which the emulator dies.
    const absl::StatusOr<RunnerAnswer> answer = ask_runner(
        emulator_, runner::Frame::kJob, runner::encode_job(job), /*timeout_s=*/-1, memory);
    if (!answer.ok()) lost(answer.status());
    if (answer->type == runner::Frame::kCrash) crash(answer->payload);
    if (answer->type == runner::Frame::kRefusal) {
      return absl::ResourceExhaustedError(answer->payload);
    }
    return take_outputs(answer->payload);
  }

 private:
  absl::Status take_outputs(const std::string& payload) {
    const std::optional<runner::Result> result = runner::decode_result(payload);
    // A wild kernel may have written what the runner then sent.
    if (!result) return absl::DataLossError("the runner's answer makes no sense");
    if (result->code != 0) return absl::FailedPreconditionError("the kernel refused its context");
    if (!result->intact) return absl::DataLossError("wrote outside its workspace");
    size_t next = 0;
    for (Argument& a : bench_.arguments) {
      if (!a.output) continue;
      if (next >= result->outputs.size() ||
          static_cast<int64_t>(result->outputs[next].size()) != a.memory[0].bytes()) {
        return absl::DataLossError("the runner's outputs are not the program's");
      }
      std::memcpy(a.memory[0].data(), result->outputs[next].data(), result->outputs[next].size());
      ++next;
    }
    return absl::OkStatus();
  }

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
  const Emulator& emulator_;
  ControlPage* page_;
  std::map<int, Slot> slots_;
};

}  // namespace

DeviceDriver emulated_driver(Emulator emulator) {
  DeviceDriver driver;
  driver.clock = Clock::kNone;
  driver.time_kind = TimeKind::kEstimated;
  driver.stands_in = emulator.name;
  driver.shut_in = false;                  // it starts the emulator
  driver.open = [emulator](Workbench& bench) -> absl::StatusOr<std::unique_ptr<Device>> {
    return std::make_unique<EmulatedDevice>(bench, emulator);
  };
  return driver;
}

}  // namespace lw
