#include "src/api/run/devices.h"

#include <memory>

#include "absl/strings/str_format.h"
#include "loopwright/program.h"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/base/parallel_pool.h"
#include "src/measure/cpu/emulator.h"
#include "src/measure/local.h"
#include "src/measure/memory.h"
#include "src/measure/workers/workbench.h"

namespace lw {
namespace {

double argument_bytes(const Program& program) {
  double total = 0;
  for (int t : arguments(program)) total += static_cast<double>(bytes(program.tensors[t]));
  return total;
}

absl::Status check_memory(const Task& task) {
  const double needed = argument_bytes(*task.program()), present = memory_limit();
  if (needed <= present) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "the tensors need %.1f GB, this machine has %.1f", needed / 1e9, present / 1e9));
}

}  // namespace

absl::Status check_runs_here(const Task& task) {
  RETURN_IF_ERROR(check_memory(task));
  if (is_simulated(*task.target())) {
    return absl::NotFoundError(concat("no device for target '", task.target()->name,
                                      "': it is simulated here, and no process runs on it"));
  }
  ASSIGN_OR_RETURN(const Target host, find_target("host"));
  const std::string missing = missing_feature(*task.target(), host);
  if (!missing.empty()) {
    return absl::NotFoundError(
        concat("no device for target '", task.target()->name, "': this machine lacks ", missing));
  }
  const int processors = static_cast<int>(allowed_cpus().size());
  if (task.threads() > processors) {
    return absl::NotFoundError(concat("no device for ", task.threads(),
                                      " threads: this process may use ", processors,
                                      processors == 1 ? " processor" : " processors"));
  }
  return absl::OkStatus();
}

absl::StatusOr<RunsOn> find_device(const Task& task) {
  if (is_simulated(*task.target())) {
    RETURN_IF_ERROR(check_memory(task));
    return RunsOn::kSimulator;
  }
  const absl::Status driven = check_driven(*task.target());
  if (is_estimated(*task.target(), driven)) {
    RETURN_IF_ERROR(check_memory(task));
    return RunsOn::kEstimate;
  }
  if (!absl::IsUnimplemented(driven)) {
    RETURN_IF_ERROR(driven);
    RETURN_IF_ERROR(check_memory(task));
    return RunsOn::kDriver;
  }
  ASSIGN_OR_RETURN(const Target host, find_target("host"));
  if (missing_feature(*task.target(), host) != task.target()->architecture) {
    RETURN_IF_ERROR(check_runs_here(task));
    return RunsOn::kHost;
  }
  RETURN_IF_ERROR(check_memory(task));
  const absl::StatusOr<Emulator> emulator = find_emulator(*task.target());
  if (emulator.ok()) return RunsOn::kEmulator;
  return absl::NotFoundError(concat("no device for target '", task.target()->name,
                                    "': this machine lacks ", task.target()->architecture, ", and ",
                                    std::string(emulator.status().message())));
}

absl::Status check_measurable(const Program& program, double present) {
  const double needed = measuring_bytes(program);
  if (needed <= present) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("measuring '%s' takes %.3g GB (each input %d times, each output 3 times), "
                      "there are %.3g", program.name, needed / 1e9, kInputSets, present / 1e9));
}

TimeKind time_kind(RunsOn device) {
  switch (device) {
    case RunsOn::kHost:
    case RunsOn::kDriver: return TimeKind::kMeasured;
    case RunsOn::kEstimate:
    case RunsOn::kEmulator: return TimeKind::kEstimated;
    case RunsOn::kSimulator: return TimeKind::kSimulated;
  }
  CHECK(false);
}

}  // namespace lw
