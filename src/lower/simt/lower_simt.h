// From a nest to a kernel of groups of items. Internal to src/lower.
#pragma once

#include "src/lower/lower.h"

namespace lw::lowering {

// Infeasible: what a group needs of local memory, or an item of private memory, is more than there
// is.
absl::StatusOr<Kernel> lower_simt(const Nest& nest, const LowerOptions& options);

}  // namespace lw::lowering
