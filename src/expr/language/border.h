// What lies beyond the ends of a dimension: pad(READ, edge | reflect | wrap).
#pragma once

#include <cstdint>
#include <string_view>

#include "src/expr/bounds.h"

namespace lw {

enum class Border : uint8_t { kNone, kEdge, kReflect, kWrap };
std::string_view border_name(Border border);  // "edge", "reflect", "wrap"; of kNone ""
Border border_named(std::string_view name);   // kNone when the name is none

// The index, or that of the element inside [0, extent) that stands for it: only as far as it can
// leave, under the facts. REQUIRES: not kNone.
Expr index_inside(const Expr& index, int64_t extent, Border border, const Facts& facts);

}  // namespace lw
