// The local Measurer: builder and device processes on this machine. The device is the machine itself
// or, by the target's architecture, one that is simulated here or that a driver has.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "schedules/targets/target.h"
#include "src/measure/run/driven.h"
#include "src/measure/run/simulation.h"
#include "src/measure/workers/options.h"
#include "src/search/measurer.h"

namespace lw {

struct Artifact;
struct Program;

// Inputs are random_input() of the program for the seed: one uniform set, one of small integers.
//
// With fewer threads than processors, the last `threads` processors measure and the others build,
// and the calling thread is confined to the others while the Measurer lives. Otherwise building and
// measuring alternate in small batches, and the caller should not compute while it waits. Where the
// device's clock is exact (workers/device.h) every processor does both, and the caller what it likes.
//
// REQUIRES: target's architecture has a backend, its features exist here or in what is simulated; the
// calling thread lives as long as the Measurer (the worker processes end with it).
// kResourceExhausted: no memory for the tensors. kFailedPrecondition: `isolation` cannot be reached.
absl::StatusOr<std::unique_ptr<Measurer>> make_local_measurer(const Program& program,
                                                              const Target& target,
                                                              const LocalOptions& options);

// Whether the target's machine is one that is simulated here.
bool is_simulated(const Target& target);
// Whether a driver of this machine has the target's: kUnimplemented where its architecture's kernels
// run on no driver's devices, else what there is not.
absl::Status check_driven(const Target& target);
// Whether times of its kernels are estimated: it is a kind of GPU, named by no device, and there is
// none here.
bool is_estimated(const Target& target);
// The same of who has asked: `driven` is what check_driven says of it.
bool is_estimated(const Target& target, const absl::Status& driven);
// How many of its units a kernel computes on at once: all. Errors as check_driven.
absl::StatusOr<int> driven_units(const Target& target);
// The artifact on that driver's device. REQUIRES: check_driven(target); the artifact is for it.
absl::StatusOr<std::unique_ptr<DrivenKernel>> open_driven(const Target& target,
                                                          const Artifact& artifact);
// Machines that drivers of this one have, as named_machine() takes them. Errors: a driver does not say what it has; where there
// is none, there are no machines.
struct DrivenMachine {
  std::string name;                        // "opencl:0"
  std::string device, driver;              // "Mali-G78 r0p1"; whose release it is
  absl::StatusOr<Target> target;           // or why it cannot be used
};
absl::StatusOr<std::vector<DrivenMachine>> driven_machines();
// What such a machine does at most, measured for some two seconds and kept: from now on its target has
// constants of that; or, where that says enough, what its driver says of it. Errors as check_driven;
// kUnavailable: its driver did not survive it.
// REQUIRES: !is_simulated(target).
absl::StatusOr<DrivenReport> probe_driven(const Target& target);
// One call, watched. REQUIRES: is_simulated(target); the artifact is for it. kInvalidArgument: it is
// none that the machine takes; kDataLoss: it does not end.
absl::StatusOr<Simulation> simulate(const Target& target, const Artifact& artifact);

}  // namespace lw
