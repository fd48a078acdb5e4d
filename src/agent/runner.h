// The agent's side of a device: gives it one job at a time, outlives its deaths.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "loopwright/v1/agent.pb.h"
#include "src/agent/device.h"

namespace lw {

struct RunHooks {
  std::function<void(loopwright::v1::JobPhase)> phase;
  std::function<bool()> stopped;  // asked some twenty times a second
};

// Thread-compatible: all calls from one thread, which must outlive the object (the device's process
// ends with it).
class DeviceRunner {
 public:
  virtual ~DeviceRunner() = default;
  // As describe_device(); a measurer that was prepared is forgotten. kUnavailable: the device's
  // process died of it.
  virtual absl::StatusOr<loopwright::v1::Device> describe(const std::string& state,
                                                          bool refresh) = 0;
  // Blocks for the job's timeout and a few seconds at most. The result is whole, as it goes to the
  // server; `abandoned` when it was stopped, which takes a second or two.
  virtual loopwright::v1::JobResult run(const loopwright::v1::Job& job, const RunHooks& hooks) = 0;
};

// `host_command`: what starts a device host; "--device TEXT --parent PID" are appended.
std::unique_ptr<DeviceRunner> make_device_runner(const DeviceSpec& spec,
                                                 std::vector<std::string> host_command);

}  // namespace lw
