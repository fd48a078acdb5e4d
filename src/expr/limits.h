// How much of everything the front end takes, so that no input can exhaust the stack or the memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lw {

constexpr int64_t kMaxElements = int64_t{1} << 40;  // of one tensor, or of one reduction
constexpr size_t kMaxRank = 12;
constexpr int kMaxDepth = 300;                      // of nested expressions
constexpr int64_t kMaxNodes = 1 << 20;                // of one expression
constexpr size_t kMaxFileBytes = size_t{1} << 20;
constexpr size_t kMaxDiagnostics = 50;

}  // namespace lw
