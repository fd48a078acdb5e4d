// DRAM is the workbench's arguments where they lie, and a workspace of the slot's own; what lies in
// neither cannot be touched unseen.
#include "src/measure/npu/npu_device.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <span>

#include "src/base/check.h"
#include "src/base/message.h"
#include "src/build/npu/backend.h"
#include "src/measure/workers/workbench.h"
#include "src/npu/function/function.h"
#include "src/npu/module.h"
#include "src/npu/timing/report.h"

namespace lw {
namespace {

absl::StatusOr<npu::Module> read(const Artifact& artifact) {
  if (artifact.architecture != kNpuArchitecture) {
    return absl::InvalidArgumentError(
        concat("an artifact for '", artifact.architecture, "', not for ", kNpuArchitecture));
  }
  return npu::read_module(artifact.bytes);
}

// The module's arguments are the program's.
absl::Status check_arguments(const Workbench& bench, const npu::Module& module) {
  if (module.arguments.size() != bench.arguments.size()) {
    return absl::InvalidArgumentError(concat("NPU module: ", module.arguments.size(),
                                             " arguments, of a program that has ",
                                             bench.arguments.size()));
  }
  for (size_t i = 0; i < module.arguments.size(); ++i) {
    const npu::ModuleArgument& given = module.arguments[i];
    const Argument& a = bench.arguments[i];
    if (given.range.bytes != static_cast<uint64_t>(a.bytes)) {
      return absl::InvalidArgumentError(concat("NPU module: ", given.range.bytes, " bytes for ",
                                               a.name, ", which has ", a.bytes));
    }
    if (given.written != a.output) {
      return absl::InvalidArgumentError(
          concat("NPU module: it says that ", a.name, given.written ? " is" : " is not",
                 " written"));
    }
  }
  return absl::OkStatus();
}

// What the workbench has no room for, too.
absl::Status check_module(const Workbench& bench, const npu::Module& module) {
  RETURN_IF_ERROR(check_arguments(bench, module));
  const uint64_t limit = static_cast<uint64_t>(bench.options.memory_limit_bytes);
  if (module.workspace.bytes <= limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(concat("the kernel needs ", module.workspace.bytes,
                                             " bytes of workspace, the limit is ", limit));
}

// Of our own backend the module is had without its bytes, which are made if it is to be run.
absl::StatusOr<Computed> compute(const Workbench& bench, const Kernel& kernel, double below_us) {
  const bool own = bench.backend == &npu_backend();
  Computed computed;
  npu::Module module;
  if (own) {
    ASSIGN_OR_RETURN(module, make_npu_module(kernel, *bench.target));
  } else {
    ASSIGN_OR_RETURN(computed.artifact, bench.backend->build(kernel, *bench.target));
    ASSIGN_OR_RETURN(module, read(computed.artifact));
  }
  RETURN_IF_ERROR(check_module(bench, module));
  ASSIGN_OR_RETURN(const npu::Timing timing,
                   npu::simulate(module.config, module.program, {.checked = own}));
  RETURN_IF_ERROR(npu::check_ended(timing));
  computed.samples.us = {timing.ns / 1000};
  computed.samples.counters = npu::timing_counters(timing);
  if (computed.samples.us[0] >= below_us) {
    computed.artifact = Artifact();
  } else if (own) {
    ASSIGN_OR_RETURN(computed.artifact, make_npu_artifact(kernel, module));
  }
  return computed;
}

class NpuDevice : public Device {
 public:
  explicit NpuDevice(Workbench& bench) : bench_(bench) {}

  absl::Status load(int slot, const Artifact& artifact) override {
    slots_.erase(slot);
    Slot loaded;
    ASSIGN_OR_RETURN(loaded.module, read(artifact));
    RETURN_IF_ERROR(check_module(bench_, loaded.module));
    slots_.emplace(slot, std::move(loaded));
    return absl::OkStatus();
  }

  void unload_all() override { slots_.clear(); }

  absl::Status run(int slot, int set) override {
    ASSIGN_OR_RETURN(Slot* const loaded, simulated(slot));
    const npu::Module& module = loaded->module;
    std::vector<uint8_t> workspace(module.workspace.bytes, kPoison);
    std::vector<npu::Buffer> dram;
    if (!workspace.empty()) dram.push_back({module.workspace.address, workspace, true});
    for (size_t i = 0; i < module.arguments.size(); ++i) {
      const Argument& a = bench_.arguments[i];
      std::byte* const data = a.memory[a.output ? 0 : set].data() +
                              argument_offset(bench_, set, static_cast<int>(i));
      dram.push_back({module.arguments[i].range.address,
                      {reinterpret_cast<uint8_t*>(data), static_cast<size_t>(a.bytes)}, a.output});
    }
    npu::FunctionOptions options;
    options.races = !loaded->raceless;     // whichever there are show on any inputs
    ASSIGN_OR_RETURN(npu::Memory memory, npu::make_memory(module.config, std::move(dram)));
    ASSIGN_OR_RETURN(const npu::FunctionReport report,
                     npu::execute(module.config, module.program, *loaded->timing, loaded->timeline,
                                  &memory, options));
    loaded->raceless = loaded->raceless || report.status == npu::FunctionStatus::kOk;
    if (report.status == npu::FunctionStatus::kOk) return absl::OkStatus();
    const std::string first = report.errors.empty() ? "" : report.errors[0];
    return absl::DataLossError(
        concat(name_of(report.status), ": ", first.substr(0, first.find('\n'))));
  }

 private:
  struct Slot {
    npu::Module module;
    std::optional<npu::Timing> timing;     // once it is asked for
    std::vector<npu::Span> timeline;
    bool raceless = false;                 // that is certain
  };

  // With its timing and timeline, which are the same whenever they are asked for. A program that the
  // machine does not take is refused here.
  absl::StatusOr<Slot*> simulated(int slot) {
    const std::map<int, Slot>::iterator it = slots_.find(slot);
    if (it == slots_.end()) return absl::NotFoundError("nothing loaded");
    Slot& loaded = it->second;
    if (!loaded.timing) {
      npu::TimingOptions options;
      options.timeline = &loaded.timeline;
      ASSIGN_OR_RETURN(loaded.timing,
                       npu::simulate(loaded.module.config, loaded.module.program, options));
    }
    return &loaded;
  }

  Workbench& bench_;
  std::map<int, Slot> slots_;
};

}  // namespace

DeviceDriver npu_driver() {
  DeviceDriver driver;
  driver.clock = Clock::kExact;
  driver.time_kind = TimeKind::kSimulated;
  driver.stands_in = kNpuArchitecture;
  driver.compute = compute;
  driver.open = [](Workbench& bench) -> absl::StatusOr<std::unique_ptr<Device>> {
    return std::make_unique<NpuDevice>(bench);
  };
  return driver;
}

}  // namespace lw
