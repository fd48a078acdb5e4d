// The machine that kernels are measured on. It is open in one process (device_main, workbench.h),
// which may die of a kernel: the parent then starts another, with a Device of its own. What the
// parent has to know of it, and how it is opened, is its driver's to say.
//
// Arguments are where the workbench has them: a Device reads inputs and writes outputs there.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "src/build/build.h"
#include "src/measure/machine/hygiene.h"
#include "src/measure/process/ipc.h"
#include "src/measure/run/timing.h"
#include "tuner_db/time_kind.h"

namespace lw {

struct Kernel;
struct Workbench;

// What a device knows of time.
enum class Clock {
  kSampled,  // reads a clock, which the machine and its neighbours disturb: several samples, raced
             // against an incumbent, finalists in turns, and nothing believed unweighed
  kExact,    // computes it, the same whenever and wherever: one sample is all that can be known
  kNone,     // nothing: the cost model's estimate stands for it
};

// What timing a kernel gave.
struct Samples {
  std::vector<double> us;                  // each the mean of `inner` calls
  int64_t inner = 1;
  bool raced_out = false;                  // stopped early: hopelessly behind the incumbent
  double inside_s = 0;                     // that the process spent on it; of a sampled clock
  TimedUsage usage;                        // of the process meanwhile
  // What the device counted, by name ("cycles"); what is not there is 0 or unknown.
  std::vector<std::pair<std::string, double>> counters;
};
void put_samples(const Samples& samples, Writer* writer);
// What is broken makes `reader` not ok.
Samples get_samples(Reader* reader);

// What an exact clock says of a kernel.
struct Computed {
  Samples samples;
  Artifact artifact;                       // if it is to be run
};

// Slots hold what is loaded. Statuses: kDataLoss is a wrong result, kResourceExhausted exceeds the
// device, kAborted is a kernel that has crashed on the device, whose driver is of no more use to this
// process, kUnavailable is the device's own failure, anything else is the build's fault (WorkerLink);
// a message says why. Thread-compatible.
class Device {
 public:
  virtual ~Device() = default;
  // Into a slot, in place of what was there, which is gone also where this fails.
  virtual absl::Status load(int slot, const Artifact& artifact) = 0;
  // What is left of building, where a driver does some when a kernel is first run: after it nothing
  // but the kernel takes time.
  virtual absl::Status compile(int slot);
  virtual void unload_all() = 0;
  // One run on a set of inputs (InputSet), in memory of the kernel's own that says nothing of
  // earlier runs; and whether it has left alone what it must not change.
  virtual absl::Status run(int slot, int set) = 0;

  // REQUIRES (all that follow): the clock is sampled; of `time` alone, or it is exact and the driver
  // does not compute.
  // On the uniform inputs.
  virtual absl::StatusOr<Samples> time(int slot, const TimingPlan& plan);
  // Round by round, one sample of each slot. Result i for slots[i]; all have the same usage.
  virtual absl::StatusOr<std::vector<Samples>> interleave(const std::vector<int>& slots, int rounds,
                                                          const TimingPlan& plan);
  // One run and nothing besides it, for who times it from outside.
  virtual absl::Status run_again(int slot, int set);
};

// What a driver makes of an artifact, in a builder's process. `spent`: that process is not to build
// anything more.
struct Compiled {
  Artifact artifact;
  bool spent = false;
};
using Compiler = std::function<absl::StatusOr<Compiled>(const Artifact& artifact)>;

struct DeviceDriver {
  Clock clock = Clock::kSampled;
  TimeKind time_kind = TimeKind::kMeasured;  // of its times
  std::string stands_in;                   // for a machine that this one is not: "qemu-aarch64", "npu"
  // Kernels run on another machine, which nothing here disturbs and nobody here can look at.
  bool elsewhere = false;
  bool shut_in = true;                     // its processes can be, as far as this machine allows
  // Of a sampled clock here: a kernel of one thread computes on all processors that may be used.
  bool all_processors = false;
  // That a kernel computes on, whatever its threads, for what is its peak; 0: on its threads.
  int units = 0;
  bool weighed = true;                     // no call takes less time than it costs of processors
  // In the device's process, before that is confined. `bench` outlives the Device.
  std::function<absl::StatusOr<std::unique_ptr<Device>>(Workbench& bench)> open;
  // Of an exact clock: builds the kernel and computes its time, in a builder's process; it is to be
  // run if that is less than `below_us`. Statuses as Device's. Null: the device says, one sample.
  std::function<absl::StatusOr<Computed>(const Workbench& bench, const Kernel& kernel,
                                         double below_us)> compute = nullptr;
  // Of a driver that compiles: opened in a builder's process, which is not confined then, since
  // compilers open files and start programs. Null: what the backend builds is all there is to it.
  std::function<Compiler(Workbench& bench)> compiler = nullptr;
};

}  // namespace lw
