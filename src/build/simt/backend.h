// Kernels of machines of many threads: OpenCL C, which the machine's driver compiles.
#pragma once

#include "src/build/build.h"
#include "src/build/simt/program.h"

namespace lw {

const Backend& opencl_backend();
// kUnimplemented: these are run by a device (src/measure/simt), not in this process.
absl::StatusOr<std::unique_ptr<Loaded>> load_opencl(const Artifact& artifact);

}  // namespace lw
