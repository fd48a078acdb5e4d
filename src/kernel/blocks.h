// The operations of blocks as rows of one table: their words in the text, how many sources they
// have, which types they take. An operation is its line in BlockOp (kernel.h), its row here, its
// code in src/build/interpret_block.cc and, where a target has instructions for it, in the encoder
// of that family.
#pragma once

#include <string_view>

#include "absl/container/inlined_vector.h"
#include "src/kernel/kernel.h"

namespace lw {

struct BlockRow {
  BlockOp op;
  std::string_view word;
  int sources;                             // how many of `srcs` it reads; 0: it writes `integer`
  const char* (*defect)(Type dst, const Type* srcs);  // of types, if any; null: none possible
};

extern const BlockRow kBlockRows[kBlockOps];  // by BlockOp
inline const BlockRow& row_of(BlockOp op) { return kBlockRows[static_cast<int>(op)]; }

// dst and then the sources.
absl::InlinedVector<const View*, 3> views_of(const Block& block);

// From a view's index to the first and to the last element that the positions of a box have there.
struct Reach { int64_t lo, hi; };          // lo <= 0 <= hi, each at most 2^60 away
Reach reach_of(const Block& block, const View& view);

// What is wrong with a block wherever it stands; null when nothing.
const char* block_defect(const Kernel& kernel, const Block& block);

// Whether the kernel is for a machine with managed memories: it has such memories, or blocks.
bool is_managed(const Kernel& kernel);

}  // namespace lw
