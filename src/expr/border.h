// What lies beyond the ends of a dimension: pad(READ, edge | reflect | wrap).
#pragma once

#include <cstdint>
#include <string_view>

namespace lw {

enum class Border : uint8_t { kNone, kEdge, kReflect, kWrap };
std::string_view border_name(Border border);  // "edge", "reflect", "wrap"; of kNone ""
Border border_named(std::string_view name);   // kNone when the name is none

}  // namespace lw
