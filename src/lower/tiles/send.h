// Copies that go on their way. Internal to src/lower.
#pragma once

#include <vector>

#include "src/kernel/kernel.h"

namespace lw::lowering {

// Stores to a group's memory, in the list, of what was loaded for them alone, whole vectors, from an
// argument or what prepack wrote, go on their way. Loads are then in front of their stores.
void send(const Kernel& kernel, std::vector<Stmt>& list);

}  // namespace lw::lowering
