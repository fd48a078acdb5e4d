// The builder's process: kernel text in, artifact out, or what an exact clock says of it. Code
// generation may crash or eat memory; that costs one candidate and this process.
#include <malloc.h>
#include <unistd.h>

#include <limits>

#include "src/base/check.h"
#include "src/base/parallel_pool.h"
#include "src/kernel/kernel.h"
#include "src/measure/process/sandbox.h"
#include "src/measure/workers/workbench.h"
#include "src/measure/workers/worker_loop.h"

namespace lw {
namespace {

absl::StatusOr<std::string> built_answer(const Workbench& bench, const Compiler& compiler,
                                         const Message& request) {
  Reader reader(request.payload);
  ASSIGN_OR_RETURN(const Kernel kernel, parse_kernel(reader.get_string()));
  if (request.type == kBuild) {
    Compiled built;
    ASSIGN_OR_RETURN(built.artifact, bench.backend->build(kernel, *bench.target));
    if (compiler != nullptr) {
      ASSIGN_OR_RETURN(built, compiler(built.artifact));
    }
    return Writer().put_string(artifact_bytes(built.artifact)).put(built.spent).bytes();
  }
  ASSIGN_OR_RETURN(const Computed computed,
                   bench.driver.compute(bench, kernel, reader.get<double>()));
  Writer samples, all;
  put_samples(computed.samples, &samples);
  const bool runs = !computed.artifact.architecture.empty();
  all.put(computed.samples.us.at(0)).put_string(samples.bytes());
  all.put_string(runs ? artifact_bytes(computed.artifact) : "");
  return all.bytes();
}

// The next candidate needs as much memory as this one: to have the system make its pages anew takes
// longer than to fill them.
void keep_memory() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
}

}  // namespace

void builder_main(Workbench& bench, int page, int socket, const Isolation& isolation) {
  report_crashes_to(bench.control_page(page));
  pin_to(page > bench.builders ? bench.measuring : bench.building);
  if (bench.driver.clock == Clock::kExact) keep_memory();
  Confinement confinement;
  confinement.socket = socket;
  confinement.memory_bytes = bench.options.memory_limit_bytes;
  confinement.cpu_seconds = kWorkerCpuSeconds;
  confinement.keep_stderr = true;
  Compiler compiler;
  if (bench.driver.compiler != nullptr) compiler = bench.driver.compiler(bench);
  else if (!confine(isolation, confinement)) _exit(kNotIsolated);
  serve_requests(socket, [&](const Message& request) {
    return built_answer(bench, compiler, request);
  });
}

}  // namespace lw
