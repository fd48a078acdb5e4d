// A device host: the process that holds a device's measurer. The agent itself speaks gRPC, whose
// threads forbid forking, so it starts one host a device (the same binary with a hidden command)
// and talks to it over an inherited socket, in the framing of measure/ipc.h:
//
//   agent -> host   kDescribe {state folder, bool refresh}    -> kDescribed {Device} | kFailed
//   {why}
//                   kRun {Job}      -> kPhase {int32}*, kOutcome {CandidateOutcome}*,
//                                      then kFinished {JobResult without outcomes}
//                   kStop {}        ends what runs: its kFinished says `abandoned`
//
// A host that loses its socket, or its parent, ends. While it lives it holds its processors, or
// its driver's device (measure/device_lock.h): where another agent of this user has one of them, it describes and runs
// nothing and says who.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace lw {

enum class HostMessage : uint32_t {
  kDescribe = 1,
  kDescribed,
  kFailed,
  kRun,
  kPhase,
  kOutcome,
  kFinished,
  kStop,
};

// The host's descriptor of the socket, as the agent hands it over.
constexpr int kHostSocket = 3;
constexpr double kRestOfMessage = 10;      // seconds of patience for a message that has begun

// The hidden command: serves until the socket closes; the process's exit code. `device` is
// DeviceSpec::text(), `parent` the agent's process. REQUIRES: a process of its own, one thread.
int device_host_main(const std::string& device, pid_t parent);

}  // namespace lw
