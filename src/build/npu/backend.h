// Programs for the simulated NPU: artifacts are modules (src/npu/module.h). Thread-safe.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "src/build/build.h"

namespace lw {

const Backend& npu_backend();
// Runs it on the simulated machine, with its checks: a race, a deadlock or an access out of bounds
// is a kernel that refuses its context.
absl::StatusOr<std::unique_ptr<Loaded>> load_npu(const Artifact& artifact);

}  // namespace lw
