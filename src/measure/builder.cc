// The builder's process: kernel text in, artifact out. Code generation may crash or eat memory;
// that costs one candidate and this process.
#include <signal.h>

#include "src/base/parallel_pool.h"
#include "src/lower/kernel.h"
#include "src/measure/sandbox.h"
#include "src/measure/workbench.h"

namespace lw {

void builder_main(const Workbench& bench, int socket) {
  limit_resources(bench.options.memory_limit_bytes);
  pin_to(bench.building);
  while (true) {
    absl::StatusOr<Message> request = receive_message(socket);
    if (!request.ok()) return;
    absl::StatusOr<Kernel> kernel = parse_kernel(Reader(request->payload).get_string());
    absl::StatusOr<Artifact> artifact =
        kernel.ok() ? bench.backend->build(*kernel, bench.target) : kernel.status();
    const absl::Status sent = artifact.ok()
                                  ? send_message(socket, kDone, artifact_bytes(*artifact))
                                  : send_message(socket, kRefused, refusal(artifact.status()));
    if (!sent.ok()) return;
  }
}

}  // namespace lw
