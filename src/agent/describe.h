// Who a device is: what the machine can do (the doctor's measurements), what identifies it, and the
// state directory that remembers both between runs of an agent.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "loopwright/v1/agent.pb.h"
#include "src/agent/device.h"

namespace lw {

struct Target;

// Fills target, target_id and backend.
absl::Status describe_target(const Target& target, loopwright::v1::Device* device);

// The row of kind "cpu": the doctor's quick report as facts (the machine's, how well candidates are
// shut in, what it can do), about a second. kFailedPrecondition: less isolation than `spec`
// requires.
absl::Status describe_cpu(const DeviceSpec& spec, loopwright::v1::Device* device);
std::string cpu_identity(const DeviceSpec& spec);

// As in Device.fingerprint, as it is now; some milliseconds.
std::string fingerprint(const DeviceSpec& spec);

// The whole message of a device, but for its agent and slots: from the state directory while the
// fingerprint is the same, else described anew and remembered there. `state` empty: remembers
// nothing. A state directory that cannot be written costs only the next start's time.
absl::StatusOr<loopwright::v1::Device> describe_device(const DeviceSpec& spec,
                                                       const std::string& state, bool refresh);

// The same for every run on one machine with one state directory: from /etc/machine-id and the
// directory's path, else drawn once and kept there. Needs none of it with a name of its own.
absl::StatusOr<std::string> agent_id(const std::string& state);

}  // namespace lw
