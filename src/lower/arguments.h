// The buffers that every lowering begins with. Internal to src/lower.
#pragma once

#include <vector>

#include "loopwright/program.h"
#include "src/kernel/kernel.h"

namespace lw::lowering {

// Adds a buffer for each argument of the program. Returns the buffer of each tensor; -1: it is none.
std::vector<int> add_arguments(const Program& program, Kernel& kernel);

}  // namespace lw::lowering
