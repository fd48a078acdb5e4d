// The devices of CPUs: this machine's processors, and those that lw_runner runs kernels on, by an
// emulator of another architecture's or (src/measure/exec) at the far end of a line.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "src/measure/cpu/emulator.h"
#include "src/measure/workers/device.h"

namespace lw {

// Machine code (or what the interpreter interprets) in the device's own process.
DeviceDriver host_driver();
// An emulator's clock says nothing about the processor, so there is none: times are the cost
// model's.
DeviceDriver emulated_driver(Emulator emulator);

// Who answers jobs. `ask`: kAborted: it died of the job; kUnavailable: it is not well.
struct RunnerLine {
  std::function<absl::StatusOr<RunnerAnswer>(const runner::Job& job)> ask;
  // What an answer is that makes no sense: kDataLoss where a wild kernel may have written it,
  // kUnavailable where it is the line's.
  absl::StatusCode nonsense = absl::StatusCode::kDataLoss;
};
// `bench` outlives it.
std::unique_ptr<Device> make_runner_device(Workbench& bench, RunnerLine line);

}  // namespace lw
