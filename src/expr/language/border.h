// Borders by name, and the elements that they read.
#pragma once

#include <string_view>

#include "loopwright/builder.h"
#include "src/expr/bounds.h"

namespace lw {

std::string_view border_name(Border border);  // "edge", "reflect", "wrap"; of kNone ""
Border border_named(std::string_view name);   // kNone when the name is none

// The index, or that of the element inside [0, extent) that stands for it: only as far as it can
// leave, under the facts. REQUIRES: not kNone.
Expr index_inside(const Expr& index, int64_t extent, Border border, const Facts& facts);

}  // namespace lw
