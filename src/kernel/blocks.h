// The operations of blocks as rows of one table: their words in the text, how many sources they
// have, which types they take. An operation is its line in BlockOp (kernel.h), its row here, its
// code in src/build/interpreter/interpret_block.cc and, where a target has instructions for it, in the encoder
// of that family.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>

#include "absl/container/inlined_vector.h"
#include "src/kernel/kernel.h"

namespace lw {

struct BlockRow {
  BlockOp op;
  std::string_view word;
  int sources;                             // how many of `srcs` it reads; 0: it writes `integer`
  // Of its types, dst's first, and of what it computes, if any; null: none possible.
  const char* (*defect)(const Block& block, const Type* types);
  bool reduces = false;                    // along extents that dst has not
};

extern const BlockRow kBlockRows[kBlockOps];  // by BlockOp
inline const BlockRow& row_of(BlockOp op) { return kBlockRows[static_cast<int>(op)]; }

// Whether it is a function of elements, which `expr_op` says.
constexpr bool computes(BlockOp op) {
  return op == BlockOp::kUnary || op == BlockOp::kBinary || op == BlockOp::kScalar;
}

// dst and then the sources.
absl::InlinedVector<const View*, 4> views_of(const Block& block);

// The block of the positions that its clips leave, without clips; empty: they leave none.
// `value` gives what an Affine is.
template <class Value>
std::optional<Block> clipped(const Block& block, const Value& value) {
  Block rest = block;
  rest.clips.clear();
  rest.pads = false;
  for (const Clip& clip : block.clips) {
    const int64_t first = value(clip.first);
    int64_t& extent = rest.extents[clip.dim];
    const int64_t begin = std::max<int64_t>(0, -first);
    extent = std::min(extent, clip.size - first) - begin;
    if (extent <= 0) return std::nullopt;
    for (View* view : {&rest.dst, &rest.srcs[0]}) {
      view->index = view->index + affine(begin * view->strides[clip.dim]);
    }
  }
  return rest;
}

// All of dst with what the block pads.
Block padding(const Block& block);

// From a view's index to the first and to the last element that the positions of a box have there.
struct Reach { int64_t lo, hi; };          // lo <= 0 <= hi, each at most 2^60 away
Reach reach_of(const Block& block, const View& view);

// Where srcs[0] begins and how far it reaches for all of its clips' sizes, which holds for
// whatever part of that the box has.
struct Unclipped {
  Affine index;
  Reach reach;
};
Unclipped unclipped_source(const Block& block);

// What is wrong with a block wherever it stands; null when nothing.
const char* block_defect(const Kernel& kernel, const Block& block);

// Whether the kernel is for a machine with managed memories: it has such memories, or blocks.
bool is_managed(const Kernel& kernel);
// Whether an iteration of some parallel For is a group of several items.
bool has_groups(const Kernel& kernel);

}  // namespace lw
