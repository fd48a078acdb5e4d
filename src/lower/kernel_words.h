// The words of the kernel's text, shared by its printer and its parser.
#pragma once

#include <string_view>

namespace lw {

inline constexpr std::string_view kScopeWords[] = {"argument", "workspace", "private", "packed"};
inline constexpr std::string_view kReduceWords[] = {"none", "sum", "prod", "max", "min"};
inline constexpr std::string_view kIntWords[] = {"", "div", "mod", "min", "max", "register"};
// In the order of Op; kUnary and kBinary print the name of their ExprOp instead.
inline constexpr std::string_view kOpWords[] = {
    "const", "move", "broadcast", "", "", "fma", "select", "cast", "iota", "lanemask", "reduce",
    "transpose", "interleave", "dot", "load", "store", "prefetch",
    "fence", "slide"};
inline constexpr int kOpCount = sizeof kOpWords / sizeof kOpWords[0];

}  // namespace lw
