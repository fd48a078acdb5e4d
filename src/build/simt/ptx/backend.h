// Kernels of NVIDIA's GPUs: PTX of our own, which ptxas assembles where there is one and the GPU's
// driver otherwise.
#pragma once

#include "src/build/build.h"

namespace lw {

const Backend& nvidia_backend();
// kUnimplemented: these are run by a device (src/measure/cuda), not in this process.
absl::StatusOr<std::unique_ptr<Loaded>> load_nvidia(const Artifact& artifact);

}  // namespace lw
