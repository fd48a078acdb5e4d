// Where the items of a group must meet, inferred from what they read and write. Internal to
// src/lower.
#pragma once

#include "absl/status/status.h"
#include "src/kernel/kernel.h"

namespace lw::lowering {

// Of each parallel loop of several items: takes out all barriers and puts in those that it takes so
// that what one item writes and another touches is never at the same time; with any of them left
// out there would be something that may be (where elements are known exactly, and not by their
// ranges alone: that is). Infeasible: items would have to meet at a place where they may not all
// come, or several write the same element with nothing between.
absl::Status place_barriers(Kernel& kernel);

}  // namespace lw::lowering
