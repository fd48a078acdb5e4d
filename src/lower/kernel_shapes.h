// Whether the registers of an operation have the types and lanes that it needs, and a buffer a
// place. Internal to src/lower. REQUIRES: the registers exist.
#pragma once

#include "src/lower/kernel.h"

namespace lw {

bool interleaves(const Kernel& kernel, const Stmt& s);
bool multiplies_groups(const Kernel& kernel, const Stmt& s);  // kDot
bool takes_lanes_between(const Kernel& kernel, const Stmt& s);  // kSlide
bool transposes(const Kernel& kernel, const Stmt& s);         // destinations differ, too

// What is wrong with the buffer; null when nothing.
const char* buffer_defect(const Kernel& kernel, const Buffer& buffer);

}  // namespace lw
