// What an agent can measure on: kinds of devices, as a table of functions, and how a device is
// asked for on the command line.
//
//   cpu                     this machine, every processor that no other device takes
//   cpu:2                   two processors
//   cpu:2@4-5,name=left     these two
//   cpu:2,isolation=filter  refuses to measure unless candidates are shut in at least so well
//   qemu-aarch64:arm        AArch64 kernels, verified under qemu; their times are estimates
//   npu:board3,target=npu_edge16
//                           a simulated NPU; its times are exact
//   opencl:0                this machine's first OpenCL device; opencl:mali: the one so named.
//                           A processors' driver computes on every processor, whatever the agent's
//                           other devices do there: give such an agent none that measure, too
//   cuda:0                  this machine's first NVIDIA GPU; cuda:h200: the one so named; cuda:GPU-8d5f:
//                           the one of which that begins the UUID
//   exec:./my_simulator --fast,name=mine,target=my_npu.json,limit_s=60
//                           a program that is asked in frames (docs/exec.md), as a shell's command
//                           without commas; a job may take 60 s
//   exec:ssh board lw_runner,target=aarch64_neon
//                           lw_runner on a processor far away, timed by its own clock; with
//                           clock=none, or under an emulator, times are estimates
//   null:board7,target=x86_avx2,delay_ms=5,memory_mib=2048
//                           measures nothing: a time computed from the kernel, the same everywhere;
//                           refuses what it would take more memory to measure
//
// Free functions are thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "loopwright/task.h"
#include "loopwright/v1/agent.pb.h"
#include "src/measure/process/isolation.h"
#include "tuner_db/time_kind.h"

namespace lw {

class Measurer;

struct DeviceKind;

// A device as it was asked for. A value; text() and parse_device() are inverses of each other once
// assign_devices() has filled it.
struct DeviceSpec {
  const DeviceKind* kind = nullptr;
  std::string name;       // the last part of "devices/ID"; empty: not yet known
  int threads = 0;        // processors that it takes; 0: those of `cpus`
  std::vector<int> cpus;  // empty: not yet known, or it takes none
  std::string target;     // which one is emulated, simulated, or (null) whose time is computed
  int delay_ms = 0;       // null: that a candidate takes
  int memory_mib = 0;     // null: that it claims to have; 0: it does not say
  std::string command;    // exec: what is started
  std::string which;      // opencl, cuda: its number or a part of its name; "": the first
  int limit_s = 0;        // exec: that a job may take; 0: as long as usual
  bool clock = true;      // exec: false: it has none to be believed, whatever it says of itself
  std::optional<IsolationLevel> isolation;  // the least that is required; else the agent's
  std::string text() const;
};

struct DeviceKind {
  const char* name;       // "cpu": Device.kind
  bool takes_processors;  // exclusively, of this machine
  bool takes_command;     // what stands after ':' is a program's, with all its words
  bool in_process;        // runs in the agent itself, else in a process of its own
  TimeKind time_kind;     // of its times, where describe() does not say another
  const char* target;     // where the specification names none; null: the machine's own
  // What the machine is. May measure for some seconds; on the device's own processors.
  absl::Status (*describe)(const DeviceSpec& spec, loopwright::v1::Device* device);
  // What decides whether an earlier description still holds, and with it what was measured: a
  // change begins a new epoch of the device. Cheap. It becomes Device.fingerprint hashed.
  std::string (*identity)(const DeviceSpec& spec);
  bool shuts_in;          // candidates, as far as the machine allows; or runs none
  // Bytes that measuring may take; 0: not known.
  double (*memory)(const DeviceSpec& spec);
  // kFailedPrecondition: the task cannot run on this device.
  absl::StatusOr<std::unique_ptr<Measurer>> (*make_measurer)(const DeviceSpec& spec,
                                                             const Task& task, uint64_t seed);
  // What nobody else may measure on meanwhile, by the names of its locks (device_lock.h); null: all
  // may.
  std::vector<std::string> (*locks)(const DeviceSpec& spec) = nullptr;
  bool takes_machine = false;  // what stands after ':' says which of this machine's devices it is
};
const std::vector<DeviceKind>& device_kinds();

// kInvalidArgument says what is wrong with which part. `target`: of a device that takes one and
// names none; "": its kind's.
absl::StatusOr<DeviceSpec> parse_device(std::string_view text, const std::string& target = "");

// Gives every device a name (`agent`-INDEX where none was given) and its processors: of `allowed`,
// first those that were asked for, the rest to those that named none. kInvalidArgument: too few, or
// two devices want the same processor or name.
absl::Status assign_devices(const std::string& agent, const std::vector<int>& allowed,
                            std::vector<DeviceSpec>* devices);

// A resource id: 1 to 63 of [a-z0-9._-], the first a letter or digit.
bool is_resource_id(std::string_view text);

}  // namespace lw
