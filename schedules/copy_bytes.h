// How much memory copies at a stage's loops take: what domains of steps for groups look at.
#pragma once

#include <cstdint>

#include "schedules/nest.h"

namespace lw {

// About how large the box is that one item reads of a copy's tensor, or all items of the group,
// while the loops of `stage` up to the copy's stand still. A copy that is larger after all is found
// when it is lowered. REQUIRES: the copy stands at a loop of the stage.
int64_t item_copy_bytes(const Nest& nest, int stage, const Stage& copy);
int64_t group_copy_bytes(const Nest& nest, int stage, const Stage& copy);

}  // namespace lw
