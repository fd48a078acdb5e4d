// How much of everything the front end takes, so that no input can exhaust the stack or the memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lw {

constexpr int64_t kMaxElements = int64_t{1} << 40;  // of one tensor, or of one reduction
constexpr size_t kMaxRank = 12;
constexpr double kMaxArgumentBytes = 1.4e14;        // of all inputs and outputs: 47 bits address it
constexpr size_t kMaxDefinitions = 1000;               // of one op, reductions inside others included
constexpr int kMaxDepth = 300;                      // of nested expressions
constexpr int64_t kMaxNodes = 1 << 13;                // of one expression
constexpr size_t kMaxFileBytes = size_t{1} << 20;
constexpr size_t kMaxDiagnostics = 50;

}  // namespace lw
