// Products of four sub-groups together, of what lies in memory that they share. Internal.
#pragma once

#include "src/lower/tiles/tile.h"

namespace lw::lowering {

// Whether what the loop's last tile has beyond the end may count: its operands are zero there.
bool ends_in_zeros(const Frame& f, const Loop& loop);
// accumulators += the products of the tile, which are on their way where `f.products_flow`.
void multiply_wide(Frame& f, const Accumulators& accumulators);

}  // namespace lw::lowering
