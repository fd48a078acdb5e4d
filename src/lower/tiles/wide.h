// Products of four sub-groups together, of what lies in memory that they share. Internal.
#pragma once

#include "src/lower/tiles/tile.h"

namespace lw::lowering {

// accumulators += the products of the tile, which are on their way where `f.products_flow`.
void multiply_wide(Frame& f, const Accumulators& accumulators);

}  // namespace lw::lowering
