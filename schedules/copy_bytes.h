// How much memory copies at a stage's loops take: what domains of steps look at where that is little.
#pragma once

#include <cstdint>

#include "schedules/nest.h"

namespace lw {

// About how large the box is that one item reads of a copy's tensor, or all items of the group,
// while the loops of `stage` up to the copy's stand still. A copy that is larger after all is found
// when it is lowered. REQUIRES: the copy stands at a loop of the stage.
int64_t item_copy_bytes(const Nest& nest, int stage, const Stage& copy);
int64_t group_copy_bytes(const Nest& nest, int stage, const Stage& copy);
// The box itself, of all items; empty: nothing of it is read.
std::vector<int64_t> group_copy_box(const Nest& nest, int stage, const Stage& copy);

// The same of all copies at loops of `host` that items share, or of those that they do not.
int64_t copies_bytes(const Nest& nest, int host, bool shared);

// Whether there is room for a copy of `tensor`, read by `stage`, at its loop at position `depth` - 1,
// beside what stands at its loops already: for an item's own, or, among several, for a group's. On
// machines without such limits there always is.
bool copy_fits(const Nest& nest, int stage, int tensor, int depth, bool wide);

}  // namespace lw
