// From a nest of register tiles to a kernel of vector operations, for all machines that compute in
// registers. Internal to src/lower. Pure functions; thread-safe.
#pragma once

#include "src/lower/lower.h"

namespace lw::lowering {

// All but the places of buffers in workspaces. What is attached to a parallel loop is private.
absl::StatusOr<Kernel> lower_tiles(const Nest& nest, const LowerOptions& options);
absl::StatusOr<int64_t> count_statements_of_tiles(const Nest& nest, const LowerOptions& options);

// The buffers of each workspace and managed memory follow each other. Infeasible: over the limit.
absl::Status lay_out_workspace(Kernel& kernel, const LowerOptions& options);

}  // namespace lw::lowering
