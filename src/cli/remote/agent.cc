// The measurement agent, and the hidden command that its devices' processes run.
#include "src/agent/agent.h"

#include "src/agent/describe.h"
#include "src/agent/host.h"
#include "src/base/files.h"
#include "src/base/log.h"
#include "src/cli/commands.h"
#include "src/cli/interrupt.h"
#include "src/measure/process/sandbox.h"
#include "src/net/grpc_log.h"

namespace lw {
namespace {

constexpr char kAgentHelp[] =
    R"(Measures for a server: describes its devices, asks for jobs, runs and verifies them in
sandboxed processes, reports. The server needs to be reachable from here, nothing from there.

Devices (--device, several may be given):
  cpu                    this machine, every processor no other device takes
  cpu:2                  two processors of it
  cpu@4-5+8,name=left    these three, under a name of their own
  cpu,isolation=limits   only if candidates are shut in at least so well (see --isolation)
  qemu-aarch64[:NAME],isolation=none
                         AArch64 kernels, run and verified under qemu; their times are the cost
                         model's estimates. Needs qemu-aarch64 on PATH and lw_runner_aarch64.
                         They have all rights of this user: isolation=none says that it is meant
  npu[:NAME][,target=npu_mid32]
                         a simulated NPU: programs are run and checked, times are exact
  opencl[:WHICH],isolation=none
                         an OpenCL device of this machine, by its number or a part of its name, by
                         its driver, which has all rights of this user: isolation=none says that
                         it is meant. Of processors, its kernels take all: give that agent no cpu
  cuda[:WHICH],isolation=none
                         an NVIDIA GPU of this machine, by its number, a part of its name or the
                         beginning of its UUID; as with opencl
  exec:COMMAND[,name=NAME][,target=npu_mid32][,limit_s=120]
                         a program of yours that is asked in frames (docs/exec.md), with all rights
                         of this user; `loopwright device check exec:COMMAND` tries it out
  null:NAME[,target=x86_avx2][,delay_ms=5]
                         measures nothing: times computed from the kernels, for trying servers out

Candidates are shut in as well as this machine allows. --isolation LEVEL says what is the least,
without which the agent ends: none, process (no privileges), limits (no forks, no files), filter (no
system calls but for memory, threads and time), namespaces (no network, no other processes, an empty
root). `loopwright doctor` says what can be had. A cpu device holds its processors, an
opencl or cuda device what it names: no second agent of this user gets them.

What was measured is kept until the server has stored it, through lost connections and restarts.
SIGTERM or Ctrl-C: finishes the jobs in hand, then leaves; a second one gives them back at once.)";

struct AgentCommand {
  AgentOptions agent;
  std::string log_level = "info";
  std::string isolation = kSanitized ? "none" : "filter";  // no filter works with sanitizers
};

absl::StatusOr<int> run(const AgentCommand& command) {
  Level level = Level::kInfo;
  if (!parse_level(command.log_level, &level)) {
    return absl::InvalidArgumentError("--log-level must be debug, info, warning or error");
  }
  set_log_level(level);
  take_grpc_log();
  watch_interrupts(/*patience=*/2);
  AgentOptions all = command.agent;
  ASSIGN_OR_RETURN(all.isolation, parse_isolation(command.isolation));
  all.version = LOOPWRIGHT_VERSION;
  all.interrupts = interrupts;
  const absl::Status status = run_agent(all);
  if (status.ok()) return kDone;
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument: return status;
    case absl::StatusCode::kNotFound: return absl::InvalidArgumentError(status.message());
    // Two of one name would take turns for ever where a service manager starts them again.
    case absl::StatusCode::kAborted: return absl::InvalidArgumentError(status.message());
    default: return environment(status);
  }
}

Action declare_agent(CliArguments app) {
  auto command = std::make_shared<AgentCommand>();
  AgentOptions* options = &command->agent;
  options->state = default_state_folder();
  app.description(kAgentHelp);
  options->server.address = "127.0.0.1:7070";
  app.add_option("--server", options->server.address,
                 "HOST:PORT or unix:PATH of the server; several, comma-separated, of one database: "
                 "the next when one is away")
      .envname("LOOPWRIGHT_SERVER").capture_default_str();
  app.add_option("--device", options->devices, "what to measure on").capture_default_str();
  app.add_option("--target", options->target,
                 "of the devices that take one and name none: a name, or a file's path");
  app.add_option("--name", options->name, "of this agent; default: from the machine's id");
  app.add_option("--state", options->state, "folder that remembers the devices' descriptions")
      .capture_default_str();
  app.add_flag("--describe", options->describe_anew, "measure what the devices can do anew");
  app.add_option("--slots", options->slots, "jobs at hand on each device").capture_default_str();
  app.add_option("--label", options->labels, "KEY VALUE, shown by the server: host, rack, ...");
  app.add_option("--tls-ca", options->server.tls.ca, "PEM file: the authority of the server");
  app.add_option("--tls-cert", options->server.tls.certificate,
                 "PEM file: this agent's certificate");
  app.add_option("--tls-key", options->server.tls.key, "PEM file: its key");
  app.add_flag("--insecure", options->server.insecure,
               "speak without TLS to another machine: anybody on the way may read and write");
  app.add_option("--isolation", command->isolation, "the least isolation of candidates")
      .capture_default_str();
  app.add_option("--once", options->once_s, "leave after so many seconds without work");
  app.add_option("--log-level", command->log_level, "debug, info, warning or error")
      .capture_default_str();
  return [command] { return run(*command); };
}

Action declare_device_host(CliArguments app) {
  struct HostOptions {
    std::string device;
    int parent = 0;
  };
  auto options = std::make_shared<HostOptions>();
  app.hide();  // not in the help: the agent starts it
  app.add_option("--device", options->device, "").required();
  app.add_option("--parent", options->parent, "").required();
  return [options] { return device_host_main(options->device, options->parent); };
}

}  // namespace

const CommandGroup& agent_commands() {
  static const CommandGroup group = {200, {
      {"agent", "measure for a server, on this machine's devices", declare_agent},
      {"device-host", "", declare_device_host},
  }};
  return group;
}

}  // namespace lw
