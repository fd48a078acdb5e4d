// The measurement agent: holds devices, asks a server for jobs, runs them, reports.
//
//   AgentOptions options;
//   options.server.address = "127.0.0.1:7070";
//   options.devices = {"cpu"};
//   RETURN_IF_ERROR(run_agent(options));
//
// One loop of one call, AgentService.Synchronize, speaks for all devices; each device has a thread
// and, unless it measures nothing, a process of its own. Whatever was measured is kept until the
// server has said that it is stored: through lost connections, servers that restart, answers that
// never came.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "src/measure/process/isolation.h"
#include "src/net/channel.h"

namespace lw {

struct AgentOptions {
  ServerAddress server;
  std::vector<std::string> devices = {"cpu"};  // as parse_device() takes them
  std::string target;                          // of those that take one and name none; "": theirs
  std::string name;                            // the last part of "agents/ID"; empty: agent_id()
  std::string state;  // folder of descriptions; empty: nothing is remembered
  bool describe_anew = false;
  // The least that must keep candidates from this machine, of devices that do not say themselves;
  // all that can be had is used in any case.
  IsolationLevel isolation = IsolationLevel::kNone;
  double look_s = 30;  // before a job, at whether the machine is still the one described
  int slots = 2;       // jobs at hand on each device
  std::map<std::string, std::string> labels;
  std::string version;
  double once_s = 0;                            // > 0: leave after being without work for so long
  double wait_s = 20;                           // for an answer when there is no work
  double leave_s = 10;                          // for a server that does not answer, when leaving
  double backoff_s = 0.2, most_backoff_s = 15;  // between calls that fail
  double most_asked_s = 60;                     // that a server's word for a pause is taken for
  // What starts a device's process: this program's hidden command.
  std::vector<std::string> host_command = {"/proc/self/exe", "device-host"};
  // Asked some ten times a second. 1: finish what is held, then leave; 2: give it back.
  std::function<int()> interrupts = [] { return 0; };
};

// Blocks until it was told to leave. kInvalidArgument: the options; kAlreadyExists: another agent
// uses the state folder; kAborted: another run of this agent took over; kPermissionDenied,
// kUnauthenticated, kUnimplemented: as the server said at the first contact; kUnavailable: left
// with results that no server took, or a device that cannot be described. A server of a version
// that does not fit is asked again, slowly. Several agents may run in one process, on threads of
// their own.
absl::Status run_agent(const AgentOptions& options);

}  // namespace lw
