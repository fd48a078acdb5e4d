// Copies of boxes of tensors by the machine's engine. Internal to src/lower/tiles.
#pragma once

#include <vector>

#include "src/lower/emitter.h"

namespace lw::lowering {

// What a copy that is boxed needs, of points where `axes` are: a kBoxCopy for each of its blocks.
void copy_boxes(Emitter& e, int stage, const std::vector<AxisState>& axes);

}  // namespace lw::lowering
