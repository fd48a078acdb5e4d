// The words of the kernel's text, shared by its printer and its parser.
#pragma once

#include <iterator>
#include <string_view>

namespace lw {

inline constexpr std::string_view kScopeWords[] = {"argument", "workspace", "private", "packed",
                                                  "managed"};
inline constexpr std::string_view kReduceWords[] = {"none", "sum", "prod", "max", "min"};
inline constexpr std::string_view kIntWords[] = {"", "div", "mod", "min", "max", "register",
                                                "item"};
inline constexpr int kIntOps = static_cast<int>(std::size(kIntWords));

}  // namespace lw
