// Programs for the simulated NPU: artifacts are modules (src/npu/module.h). Thread-safe.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "src/build/build.h"
#include "src/npu/module.h"

namespace lw {

const Backend& npu_backend();

// What the backend builds, in two: an artifact's bytes are long, and a time needs none.
// REQUIRES: a target of the family.
absl::StatusOr<npu::Module> make_npu_module(const Kernel& kernel, const Target& target);
absl::StatusOr<Artifact> make_npu_artifact(const Kernel& kernel, const npu::Module& module);

// Runs it on the simulated machine, with its checks: a race, a deadlock or an access out of bounds
// is a kernel that refuses its context.
absl::StatusOr<std::unique_ptr<Loaded>> load_npu(const Artifact& artifact);

}  // namespace lw
