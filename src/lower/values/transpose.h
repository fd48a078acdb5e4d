// In-register transposes. Internal to src/lower.
//
// Where the lanes of a read are a stride apart but an unrolled axis of the tile runs along memory,
// lanes x lanes blocks are loaded along memory and transposed: log2(lanes) shuffles a vector
// instead of `lanes` element loads.
#pragma once

#include <utility>
#include <vector>

#include "src/lower/values/memory.h"

namespace lw::lowering {

// What one read finds at all points of its block, the one at `address` (apart == 0) among them;
// empty where none is. `around`: vectors of `lanes` points whose addresses differ from it by
// constants and all lie inside the tensor: whole rows are loaded.
std::vector<std::pair<Neighbour, Value>> load_transposed(Memory& memory, int buffer,
                                                         const Index& address, int lanes,
                                                         std::vector<Neighbour> around);

}  // namespace lw::lowering
