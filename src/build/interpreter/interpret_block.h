// Blocks of kernels, executed row by row. Internal to src/build: the interpreter calls it.
#pragma once

#include <cstddef>

#include "src/kernel/kernel.h"

namespace lw {

// A view where it stands in memory.
struct Placed {
  const View* view = nullptr;
  Type type = Type::kF32;
  std::byte* base = nullptr;               // the buffer's first element
  int64_t index = 0;                       // the value of the view's index
};

// REQUIRES: the verifier accepts the block; `srcs` holds as many as its operation reads.
void interpret_block(const Block& block, const Placed& dst, const Placed* srcs);

}  // namespace lw
