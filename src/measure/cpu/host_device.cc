// This machine's processors: loads machine code into the device's process and runs it on prepared
// tensors.
//
// The tensors are mapped here between guard pages, inputs read-only; the mappings inherited from
// the parent are given up first, so no address in this process can change an input or an oracle.
#include <algorithm>
#include <cstring>
#include <map>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/parallel_pool.h"
#include "src/measure/cpu/devices.h"
#include "src/measure/machine/hygiene.h"
#include "src/measure/process/sandbox.h"
#include "src/measure/run/caches.h"
#include "src/measure/run/runner.h"
#include "src/measure/run/timing.h"
#include "src/measure/workers/workbench.h"

namespace lw {
namespace {

// How this processor rounds and traps: the control bits, not the flags of what has happened.
uint32_t floating_point_mode() {
#if defined(__x86_64__)
  return __builtin_ia32_stmxcsr() & 0xffc0u;
#elif defined(__aarch64__)
  return static_cast<uint32_t>(__builtin_aarch64_get_fpcr());
#endif
}

void set_floating_point_mode(uint32_t mode) {
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr(mode);
#elif defined(__aarch64__)
  __builtin_aarch64_set_fpcr(mode);
#endif
}

const uint32_t kUsualMode = floating_point_mode();

class HostDevice : public Device {
 public:
  explicit HostDevice(Workbench& bench)
      : bench_(bench),
        page_(bench.control_page(0)),
        pool_(bench.options.threads, bench.measuring) {
    // All threads have come to where they pin themselves: soon they may not.
    pool_.run(pool_.workers(), [](void*, int64_t, int64_t) {}, nullptr);
  }

  absl::Status map_tensors() {
    for (int set = 0; set < kInputSets; ++set) {
      for (size_t i = 0; i < bench_.arguments.size(); ++i) {
        Argument& a = bench_.arguments[i];
        SharedMemory& memory = a.memory[a.output ? 0 : set];
        ASSIGN_OR_RETURN(GuardedMap map, GuardedMap::create(memory.bytes(), memory.fd(), a.output));
        pointers_[set].push_back(map.data() + argument_offset(bench_, set, static_cast<int>(i)));
        maps_[set].push_back(std::move(map));
      }
    }
    for (Argument& a : bench_.arguments) {
      for (SharedMemory& memory : a.memory) memory.unmap();
    }
    for (SharedMemory& values : bench_.values) values.unmap();
    return absl::OkStatus();
  }

  absl::Status load(int slot, const Artifact& artifact) override {
    slots_.erase(slot);
    ParallelPool* pool = bench_.options.threads > 1 ? &pool_ : nullptr;
    ASSIGN_OR_RETURN(slots_[slot], Runner::create(artifact, pool, bench_.options.memory_limit_bytes,
                                                  bench_.options.load));
    slots_[slot]->poison();
    return absl::OkStatus();
  }

  void unload_all() override { slots_.clear(); }

  absl::Status run(int slot, int set) override {
    if (slots_.count(slot) > 0) slots_[slot]->poison();
    ASSIGN_OR_RETURN(Runner * runner, ready(slot, set));
    if (runner->run(pointers_[set].data()) != 0) {
      return absl::FailedPreconditionError("the kernel refused its context");
    }
    return unspoiled(*runner);
  }

  absl::Status run_again(int slot, int set) override {
    const std::map<int, std::unique_ptr<Runner>>::iterator it = slots_.find(slot);
    if (it == slots_.end() || it->second == nullptr) return absl::NotFoundError("nothing loaded");
    if (it->second->run(pointers_[set].data()) == 0) return absl::OkStatus();
    return absl::FailedPreconditionError("the kernel refused its context");
  }

  absl::StatusOr<Samples> time(int slot, const TimingPlan& plan) override {
    ASSIGN_OR_RETURN(Runner * runner, ready(slot, kUniform));
    const TimedUsage before = usage_so_far();
    const double begin = now();
    Timing t = time_call(timed(runner, kUniform), plan);
    Samples samples;
    samples.inside_s = now() - begin;
    samples.usage = usage_so_far() - before;
    if (!t.ok) return absl::FailedPreconditionError("the kernel refused its context");
    RETURN_IF_ERROR(unspoiled(*runner));
    samples.us = std::move(t.samples_us);
    samples.inner = t.inner;
    samples.raced_out = t.raced_out;
    return samples;
  }

  absl::StatusOr<std::vector<Samples>> interleave(const std::vector<int>& slots, int rounds,
                                                  const TimingPlan& plan) override {
    std::vector<Timed> calls;
    std::vector<Runner*> runners;
    for (const int slot : slots) {
      ASSIGN_OR_RETURN(Runner * runner, ready(slot, kUniform));
      runners.push_back(runner);
      calls.push_back(timed(runner, kUniform));
    }
    const TimedUsage before = usage_so_far();
    std::vector<Timing> timings =
        time_in_turns(calls, rounds, plan, [&](size_t i) { describe(*runners[i], kUniform); });
    const TimedUsage usage = usage_so_far() - before;
    std::vector<Samples> all(slots.size());
    for (size_t i = 0; i < slots.size(); ++i) {
      if (!timings[i].ok) return absl::FailedPreconditionError("refused its context");
      all[i].us = std::move(timings[i].samples_us);
      all[i].inner = timings[i].inner;
      all[i].usage = usage;
    }
    return all;
  }

 private:
  // Makes the slot's kernel ready to run on `set`, and the control page ready to explain its crash.
  absl::StatusOr<Runner*> ready(int slot, int set) {
    const std::map<int, std::unique_ptr<Runner>>::iterator it = slots_.find(slot);
    if (it == slots_.end() || it->second == nullptr) return absl::NotFoundError("nothing loaded");
    Runner* runner = it->second.get();
    runner->guard(set != kUniform);
    describe(*runner, set);
    const int code = runner->prepack(pointers_[set].data());
    if (code != 0) return absl::FailedPreconditionError("prepack refused its context");
    return runner;
  }

  void describe(const Runner& runner, int set) {
    page_->regions = 0;
    for (size_t i = 0; i < bench_.arguments.size(); ++i) {
      add_region(bench_.arguments[i].name, maps_[set][i],
                 static_cast<std::byte*>(pointers_[set][i]), bench_.arguments[i].bytes);
    }
    const auto add_own = [&](const char* name, const GuardedMap& map, const std::byte* start,
                             int64_t size) {
      if (size > 0) add_region(name, map, start, size);
    };
    add_own("the workspace", runner.workspace(), runner.workspace_start(),
            runner.workspace_bytes());
    add_own("the packed operands", runner.packed(), runner.packed_start(), runner.packed_bytes());
  }

  void add_region(const std::string& name, const GuardedMap& map, const std::byte* data,
                  int64_t size) {
    if (page_->regions >= ControlPage::kRegions) return;
    ControlPage::Region& r = page_->region[page_->regions++];
    std::strncpy(r.name, name.c_str(), sizeof r.name - 1);
    r.begin = reinterpret_cast<uint64_t>(data);
    r.end = r.begin + static_cast<uint64_t>(size);
    r.low = reinterpret_cast<uint64_t>(map.data()) - 4096;
    r.high = reinterpret_cast<uint64_t>(map.data()) + static_cast<uint64_t>(map.bytes()) + 4096;
  }

  Timed timed(Runner* runner, int set) {
    Timed t;
    t.call = [this, runner, set] { return runner->run(pointers_[set].data()) == 0; };
    t.before = [this, runner, set] {
      for (const GuardedMap& map : maps_[set]) flush_caches(map.data(), map.bytes());
      flush_caches(runner->workspace().data(), runner->workspace().bytes());
      flush_caches(runner->packed().data(), runner->packed().bytes());
    };
    return t;
  }

  // What a kernel must leave as it was, checked after its last call.
  static absl::Status unspoiled(const Runner& runner) {
    if (!runner.intact()) return absl::DataLossError("wrote outside its workspace");
    const uint32_t now = floating_point_mode();
    if (now == kUsualMode) return absl::OkStatus();
    set_floating_point_mode(kUsualMode);
    return absl::DataLossError("changed the floating-point environment");
  }

  Workbench& bench_;
  ControlPage* page_;
  ParallelPool pool_;
  std::vector<GuardedMap> maps_[kInputSets];
  std::vector<void*> pointers_[kInputSets];  // of the arguments, in order
  std::map<int, std::unique_ptr<Runner>> slots_;
};

}  // namespace

DeviceDriver host_driver() {
  DeviceDriver driver;
  driver.open = [](Workbench& bench) -> absl::StatusOr<std::unique_ptr<Device>> {
    std::unique_ptr<HostDevice> device = std::make_unique<HostDevice>(bench);
    RETURN_IF_ERROR(device->map_tensors());
    return device;
  };
  return driver;
}

}  // namespace lw
