// What a kernel's buffers must be, whatever its code does with them. Internal to src/kernel.
#pragma once

#include <string>

#include "src/kernel/kernel.h"

namespace lw {

// What is wrong with the first buffer that is none, or with the managed memories; "" when nothing.
std::string buffers_defect(const Kernel& kernel);

}  // namespace lw
