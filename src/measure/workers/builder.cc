// The builder's process: kernel text in, artifact out. Code generation may crash or eat memory;
// that costs one candidate and this process.
#include <unistd.h>

#include "src/base/check.h"
#include "src/base/parallel_pool.h"
#include "src/kernel/kernel.h"
#include "src/measure/process/sandbox.h"
#include "src/measure/workers/workbench.h"
#include "src/measure/workers/worker_loop.h"

namespace lw {

void builder_main(const Workbench& bench, int page, int socket, const Isolation& isolation) {
  report_crashes_to(bench.control_page(page));
  pin_to(page > bench.builders ? bench.measuring : bench.building);
  Confinement confinement;
  confinement.socket = socket;
  confinement.memory_bytes = bench.options.memory_limit_bytes;
  confinement.cpu_seconds = kWorkerCpuSeconds;
  confinement.keep_stderr = true;
  if (!confine(isolation, confinement)) _exit(kNotIsolated);
  serve_requests(socket, [&](const Message& request) -> absl::StatusOr<std::string> {
    ASSIGN_OR_RETURN(const Kernel kernel, parse_kernel(Reader(request.payload).get_string()));
    ASSIGN_OR_RETURN(const Artifact artifact, bench.backend->build(kernel, *bench.target));
    return artifact_bytes(artifact);
  });
}

}  // namespace lw
