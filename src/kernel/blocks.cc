#include "src/kernel/blocks.h"

#include <algorithm>
#include <utility>

#include "src/expr/scalar.h"

namespace lw {
namespace {

const char* product(const Block&, const Type* types) {
  const Type dst = types[0];
  if (is_narrow(dst)) return "16-bit floats only move and convert";
  const auto fits = [&](Type type) {
    return type != Type::kBool && is_float(type) == is_float(dst);
  };
  return fits(dst) && fits(types[1]) && fits(types[2]) ? nullptr : "no product of such types";
}

// Numbers of one type.
const char* alike(const Block& block, const Type* types) {
  if (is_narrow(types[0])) return "16-bit floats only move and convert";
  for (int i = 0; i <= row_of(block.op).sources; ++i) {
    if (types[i] != types[0] || types[0] == Type::kBool) return "takes numbers of one type";
  }
  return nullptr;
}

const char* computed(const Block& block, const Type* types) {
  if (const char* defect = alike(block, types)) return defect;
  const bool unary = block.op == BlockOp::kUnary;
  const bool operands = unary ? is_unary(block.expr_op) : is_binary(block.expr_op);
  const bool takes = operands &&
                     (block.op == BlockOp::kBinary || !is_comparison(block.expr_op)) &&
                     accepts(domain_of(block.expr_op), types[0]);
  return takes ? nullptr : "no such operation on such a type";
}

const char* reduced(const Block& block, const Type* types) {
  return block.reduce == Reduce::kNone ? "reduces by nothing" : alike(block, types);
}

const char* requantised(const Block& block, const Type* types) {
  const bool fits = types[0] == Type::kI8 && types[1] == Type::kI32 && types[2] == Type::kF32 &&
                    types[3] == Type::kI32;
  if (!fits) return "requantises i32 with scales of f32 and biases of i32 to i8";
  return block.lo <= block.hi ? nullptr : "its least value is above its most";
}

// Whether no two positions have one element, but for those along the extents of a sum: an extent's
// stride goes beyond all that those with smaller strides reach.
bool apart(const Block& block) {
  absl::InlinedVector<std::pair<int64_t, int64_t>, 4> steps;  // size of the stride, extent
  for (size_t d = 0; d < block.extents.size(); ++d) {
    const int64_t stride = block.dst.strides[d];
    const bool sum = stride == 0 && row_of(block.op).reduces;
    if (block.extents[d] > 1 && !sum) {
      steps.push_back({stride < 0 ? -(stride + 1) : stride - 1, block.extents[d]});
    }
  }
  std::sort(steps.begin(), steps.end());
  __int128 reached = 0;
  for (const auto& [less_one, extent] : steps) {
    if (less_one < reached) return false;
    reached += (__int128{less_one} + 1) * (extent - 1);
  }
  return true;
}

// Whether a source in dst's buffer has other elements of it than dst, or each position the one that
// it writes.
bool reads_apart(const Block& block, const View& source) {
  const Affine distance = source.index - block.dst.index;
  if (!distance.is_constant()) return false;
  const bool pointwise = block.op == BlockOp::kUnary || block.op == BlockOp::kBinary ||
                         block.op == BlockOp::kScalar;
  if (pointwise && distance.constant == 0 && source.strides == block.dst.strides) return true;
  const Reach to = reach_of(block, block.dst), from = reach_of(block, source);
  return distance.constant + __int128{from.lo} > to.hi ||
         distance.constant + __int128{from.hi} < to.lo;
}

bool has_blocks(const std::vector<Stmt>& list) {
  return std::any_of(list.begin(), list.end(), [](const Stmt& s) {
    return s.kind == Stmt::Kind::kBlock || has_blocks(s.body) || has_blocks(s.otherwise);
  });
}

}  // namespace

constexpr BlockRow kBlockRows[kBlockOps] = {
    {BlockOp::kFill, "fill", 0, nullptr},
    {BlockOp::kCopy, "copy", 1, nullptr},
    {BlockOp::kProduct, "product", 2, product, true},
    {BlockOp::kUnary, "unary", 1, computed},
    {BlockOp::kBinary, "binary", 2, computed},
    {BlockOp::kScalar, "scalar", 1, computed},
    {BlockOp::kReduce, "reduce", 1, reduced, true},
    {BlockOp::kRequantise, "requantise", 3, requantised},
};
static_assert([] {
  for (int i = 0; i < kBlockOps; ++i) {
    if (kBlockRows[i].op != static_cast<BlockOp>(i)) return false;
  }
  return true;
}());

absl::InlinedVector<const View*, 4> views_of(const Block& block) {
  absl::InlinedVector<const View*, 4> views = {&block.dst};
  for (int i = 0; i < row_of(block.op).sources; ++i) views.push_back(&block.srcs[i]);
  return views;
}

Reach reach_of(const Block& block, const View& view) {
  constexpr __int128 kLimit = int64_t{1} << 60;
  __int128 lo = 0, hi = 0;
  for (size_t d = 0; d < block.extents.size(); ++d) {
    const __int128 last = __int128{view.strides[d]} * (block.extents[d] - 1);
    lo = std::max(lo + std::min<__int128>(last, 0), -kLimit);
    hi = std::min(hi + std::max<__int128>(last, 0), kLimit);
  }
  return {static_cast<int64_t>(lo), static_cast<int64_t>(hi)};
}

Block padding(const Block& block) {
  Block fill;
  fill.op = BlockOp::kFill;
  fill.extents = block.extents;
  fill.dst = block.dst;
  fill.integer = block.integer;
  return fill;
}

Unclipped unclipped_source(const Block& block) {
  Block whole = block;
  Affine index = block.srcs[0].index;
  for (const Clip& clip : block.clips) {
    whole.extents[clip.dim] = clip.size;
    index = index - clip.first * block.srcs[0].strides[clip.dim];
  }
  return {std::move(index), reach_of(whole, block.srcs[0])};
}

namespace {

const char* clip_defect(const Block& block) {
  if (block.clips.empty()) return block.pads ? "pads what no clip leaves out" : nullptr;
  if (block.op != BlockOp::kCopy) return "only copies are clipped";
  int before = -1;
  for (const Clip& clip : block.clips) {
    if (clip.dim <= before || clip.dim >= static_cast<int>(block.extents.size())) {
      return "clips are of ascending extents";
    }
    before = clip.dim;
    if (clip.size < 1 || clip.size > int64_t{1} << 50) return "a clip of no such size";
  }
  return nullptr;
}

}  // namespace

const char* block_defect(const Kernel& kernel, const Block& block) {
  const auto positive = [](int64_t extent) { return extent >= 1; };
  if (block.extents.empty() ||
      !std::all_of(block.extents.begin(), block.extents.end(), positive)) {
    return "a block needs extents, each at least 1";
  }
  absl::InlinedVector<Type, 4> types;
  for (const View* view : views_of(block)) {
    if (view->buffer < 0 || view->buffer >= static_cast<int>(kernel.buffers.size())) {
      return "no such buffer";
    }
    if (view->strides.size() != block.extents.size()) return "needs a stride for each extent";
    types.push_back(kernel.buffers[view->buffer].type);
  }
  const BlockRow& row = row_of(block.op);
  const char* defect = row.defect == nullptr ? nullptr : row.defect(block, types.data());
  if (defect != nullptr) return defect;
  if (block.accumulate && !row.reduces) return "only products and reductions accumulate";
  if (block.variant < 0) return "no such variant";
  if (const char* bad = clip_defect(block)) return bad;
  if (!apart(block)) return "positions write the same element";
  for (int i = 0; i < row.sources; ++i) {
    if (block.srcs[i].buffer == block.dst.buffer && !reads_apart(block, block.srcs[i])) {
      return "may read what it writes";
    }
  }
  return nullptr;
}

bool is_managed(const Kernel& kernel) {
  return !kernel.managed_bytes.empty() || has_blocks(kernel.body) || has_blocks(kernel.prepack);
}

bool has_groups(const Kernel& kernel) {
  const auto in = [](const std::vector<Stmt>& list, const auto& self) -> bool {
    return std::any_of(list.begin(), list.end(), [&](const Stmt& s) {
      return s.items != 1 || self(s.body, self) || self(s.otherwise, self);
    });
  };
  return in(kernel.body, in) || in(kernel.prepack, in);
}

}  // namespace lw
