// What this machine's processor has of what kernels may need. Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lw {

// By LLVM's names, sorted. Only what generated code may use.
const std::vector<std::string>& processor_features();

// The first of `wanted`, names between spaces, that the processor lacks; "": it has all.
std::string missing_of(std::string_view wanted);

}  // namespace lw
