// The process in which a device is open and kernels run. Long-lived; it survives nothing by itself:
// a crash, a hang or a wild write ends this process and the parent forks another.
#include <unistd.h>

#include <algorithm>

#include "src/base/check.h"
#include "src/base/parallel_pool.h"
#include "src/measure/process/sandbox.h"
#include "src/measure/workers/workbench.h"
#include "src/measure/workers/worker_loop.h"

namespace lw {
namespace {

absl::Status run(Reader& reader, Device& device, absl::Status (Device::*run)(int slot, int set)) {
  const int slot = reader.get<int32_t>(), set = reader.get<int32_t>();
  if (set < 0 || set >= kInputSets) return absl::InvalidArgumentError("no such inputs");
  return (device.*run)(slot, set);
}

absl::StatusOr<std::string> time(Reader& reader, Device& device) {
  const int slot = reader.get<int32_t>();
  ASSIGN_OR_RETURN(const Samples samples, device.time(slot, reader.get<TimingPlan>()));
  Writer writer;
  put_samples(samples, &writer);
  return writer.bytes();
}

absl::StatusOr<std::string> interleave(Reader& reader, Device& device) {
  std::vector<int> slots(static_cast<size_t>(std::clamp(reader.get<int32_t>(), 0, 1024)));
  for (int& slot : slots) slot = reader.get<int32_t>();
  const int rounds = reader.get<int32_t>();
  ASSIGN_OR_RETURN(const std::vector<Samples> all,
                   device.interleave(slots, rounds, reader.get<TimingPlan>()));
  Writer writer;
  for (const Samples& samples : all) put_samples(samples, &writer);
  return writer.bytes();
}

absl::StatusOr<std::string> answer(Device& device, const Message& request) {
  Reader reader(request.payload);
  switch (request.type) {
    case kLoad: {
      const int slot = reader.get<int32_t>();
      ASSIGN_OR_RETURN(const Artifact artifact, parse_artifact(reader.get_string()));
      RETURN_IF_ERROR(device.load(slot, artifact));
      return "";
    }
    case kCompile: RETURN_IF_ERROR(device.compile(reader.get<int32_t>())); return "";
    case kUnloadAll: device.unload_all(); return "";
    case kTime: return time(reader, device);
    case kInterleave: return interleave(reader, device);
    case kRunOnce: RETURN_IF_ERROR(run(reader, device, &Device::run)); return "";
    case kRunAgain: RETURN_IF_ERROR(run(reader, device, &Device::run_again)); return "";
    default: return absl::InvalidArgumentError("unknown request");
  }
}

}  // namespace

void device_main(Workbench& bench, int socket, const Isolation& isolation) {
  ControlPage* page = bench.control_page(0);
  *page = ControlPage();
  report_crashes_to(page);
  if (bench.driver.clock != Clock::kExact && !bench.driver.elsewhere) pin_to({bench.measuring[0]});
  const absl::StatusOr<std::unique_ptr<Device>> device = bench.driver.open(bench);
  if (bench.driver.shut_in) {
    Confinement confinement;
    confinement.socket = socket;
    confinement.memory_bytes = bench.options.memory_limit_bytes;
    confinement.cpu_seconds = kWorkerCpuSeconds * bench.options.threads;
    confinement.keep_stderr = kSanitized;
    if (!confine(isolation, confinement)) _exit(kNotIsolated);
  }
  // One that cannot be opened, or not any more, says so to whatever is asked of it.
  serve_requests(socket, [&](const Message& request) -> absl::StatusOr<std::string> {
    if (!device.ok()) return absl::UnavailableError(device.status().message());
    return answer(**device, request);
  });
}

}  // namespace lw
