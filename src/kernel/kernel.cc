#include "src/kernel/kernel.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <iterator>

#include "src/base/hash.h"
#include "src/kernel/blocks.h"
#include "src/kernel/ops.h"

namespace lw {
namespace {

// a + factor * b: a merge of two sorted lists of terms.
Affine add_scaled(const Affine& a, const Affine& b, int64_t factor) {
  Affine sum;
  sum.constant = a.constant + factor * b.constant;
  size_t i = 0, j = 0;
  while (i < a.terms.size() || j < b.terms.size()) {
    if (j == b.terms.size() || (i < a.terms.size() && a.terms[i].var < b.terms[j].var)) {
      sum.terms.push_back(a.terms[i++]);
      continue;
    }
    Affine::Term term = {b.terms[j].var, factor * b.terms[j].coefficient};
    if (i < a.terms.size() && a.terms[i].var == term.var) {
      term.coefficient += a.terms[i++].coefficient;
    }
    ++j;
    if (term.coefficient != 0) sum.terms.push_back(term);
  }
  return sum;
}

// The small fields of a statement, packed: one mixing step instead of a dozen, since search hashes
// every candidate.
uint64_t pack(int64_t a, int64_t b) {
  return static_cast<uint64_t>(a) << 32 ^ (static_cast<uint64_t>(b) & 0xffffffffu);
}

uint64_t hash_affine(uint64_t hash, const Affine& a) {
  hash = hash_combine(hash, static_cast<uint64_t>(a.constant) * 31 + a.terms.size());
  for (const Affine::Term& term : a.terms) {
    hash = hash_combine(hash, static_cast<uint64_t>(term.coefficient) * 0x100000001b3u + term.var);
  }
  return hash;
}

uint64_t hash_list(uint64_t hash, const std::vector<Stmt>& list);
uint64_t hash_block(uint64_t hash, const Block& block);

// What the fields of a statement's text say.
uint64_t hash_op(uint64_t hash, const Stmt& s) {
  hash = hash_combine(hash, pack(static_cast<int>(s.op) << 16 | static_cast<int>(s.expr_op) << 8 |
                                     static_cast<int>(s.reduce), s.dst * 2 + s.non_temporal));
  for (const Field field : row_of(s.op).fields) {
    switch (field) {
      case Field::kNone: return hash;
      case Field::kSources:
        hash = hash_combine(hash_combine(hash, pack(s.srcs[0], s.srcs[1])), s.srcs[2]);
        break;
      case Field::kSlid:
        hash = hash_combine(hash_combine(hash, pack(s.srcs[0], s.srcs[1])), s.integer);
        break;
      case Field::kConstant:
        hash = hash_combine(hash_combine(hash, std::bit_cast<uint64_t>(s.number)), s.integer);
        break;
      case Field::kIndex: hash = hash_affine(hash, s.index); break;
      case Field::kPlace:
        hash = hash_combine(hash_affine(hash, s.index), pack(s.buffer, s.mask));
        hash = hash_combine(hash, pack(s.indices, s.srcs[0]));
        break;
      case Field::kStride: hash = hash_combine(hash, s.stride); break;
      case Field::kLocality: hash = hash_combine(hash, s.integer); break;
      case Field::kOnItsWay:
        if (s.on_its_way) hash = hash_combine(hash, 1);
        break;
      case Field::kMany: case Field::kBlock: case Field::kGiven:
        for (int r : s.many) hash = hash_combine(hash, r);
        break;
      case Field::kFactors:
        if (s.block == nullptr) break;
        for (const View& view : factors_of(s)) {
          hash = hash_affine(hash_combine(hash, view.buffer), view.index);
          for (const int64_t stride : view.strides) hash = hash_combine(hash, stride);
        }
        for (const int64_t extent : s.block->extents) hash = hash_combine(hash, extent);
        break;
      case Field::kBox:
        if (s.block != nullptr) hash = hash_block(hash, *s.block);
        break;
      case Field::kStored: case Field::kMask: case Field::kIndices:  // with the place
      case Field::kNonTemporal: case Field::kReduce:                 // above
        break;
    }
  }
  return hash;
}

uint64_t hash_block(uint64_t hash, const Block& block) {
  hash = hash_combine(hash, pack(static_cast<int>(block.op) * 2 + block.accumulate, block.variant));
  hash = hash_combine(hash, block.extents.size());
  for (int64_t extent : block.extents) hash = hash_combine(hash, extent);
  for (const View* view : views_of(block)) {
    hash = hash_affine(hash_combine(hash, view->buffer), view->index);
    for (int64_t stride : view->strides) hash = hash_combine(hash, stride);
  }
  for (const Clip& clip : block.clips) {
    hash = hash_affine(hash_combine(hash, pack(clip.dim, block.pads)), clip.first);
    hash = hash_combine(hash, clip.size);
  }
  switch (block.op) {
    case BlockOp::kFill: return hash_combine(hash, block.integer);
    case BlockOp::kCopy: return block.pads ? hash_combine(hash, block.integer) : hash;
    case BlockOp::kProduct: return hash;
    case BlockOp::kUnary: case BlockOp::kBinary:
      return hash_combine(hash, static_cast<uint64_t>(block.expr_op));
    case BlockOp::kScalar:
      return hash_combine(hash_combine(hash, static_cast<uint64_t>(block.expr_op)),
                          std::bit_cast<uint64_t>(block.number));
    case BlockOp::kReduce: return hash_combine(hash, static_cast<uint64_t>(block.reduce));
    case BlockOp::kRequantise:
      return hash_combine(hash_combine(hash, block.zero), pack(block.lo, block.hi));
  }
  return hash;
}

uint64_t hash_stmt(uint64_t hash, const Stmt& s) {
  hash = hash_combine(hash, static_cast<uint64_t>(s.kind));
  switch (s.kind) {
    case Stmt::Kind::kOp:
      return hash_op(hash, s);
    case Stmt::Kind::kFor:
      hash = hash_combine(hash_combine(hash, pack(s.var, s.parallel)), s.count);
      if (s.items != 1) hash = hash_combine(hash, s.items);
      if (s.cluster != 1) hash = hash_combine(hash, pack(-1, static_cast<int>(s.cluster)));
      if (s.producer) hash = hash_combine(hash, pack(-2, 1));
      return hash_list(hash, s.body);
    case Stmt::Kind::kIf:
      hash = hash_combine(hash, s.conditions.size());
      for (const Affine& condition : s.conditions) hash = hash_affine(hash, condition);
      return hash_list(hash_list(hash, s.body), s.otherwise);
    case Stmt::Kind::kInt:
      hash = hash_combine(hash, pack(s.var, static_cast<int>(s.int_op)));
      hash = hash_combine(hash, static_cast<uint64_t>(s.divisor) * 31 + s.srcs[0]);
      return hash_affine(hash_affine(hash, s.a), s.b);
    case Stmt::Kind::kBlock:
      return hash_block(hash, *s.block);
  }
  return hash;
}

uint64_t hash_list(uint64_t hash, const std::vector<Stmt>& list) {
  hash = hash_combine(hash, list.size());
  for (const Stmt& s : list) hash = hash_stmt(hash, s);
  return hash;
}

}  // namespace

Affine affine(int64_t constant) {
  Affine a;
  a.constant = constant;
  return a;
}

Affine variable(int var, int64_t coefficient) {
  Affine a;
  if (coefficient != 0) a.terms.push_back({var, coefficient});
  return a;
}

Affine operator+(const Affine& a, const Affine& b) { return add_scaled(a, b, 1); }
Affine operator-(const Affine& a, const Affine& b) { return add_scaled(a, b, -1); }

Affine operator*(const Affine& a, int64_t factor) {
  if (factor == 0) return affine(0);
  Affine product = a;
  product.constant *= factor;
  for (Affine::Term& term : product.terms) term.coefficient *= factor;
  return product;
}

int64_t byte_alignment(const Affine& index, int64_t size) {
  uint64_t bits = 64 | static_cast<uint64_t>(index.constant * size);
  for (const Affine::Term& term : index.terms) {
    bits |= static_cast<uint64_t>(term.coefficient * size);
  }
  return int64_t{1} << std::countr_zero(bits);
}

uint64_t hash(const Kernel& kernel) {
  uint64_t hash = hash_combine(0x6b65726e656cu, kernel.arguments);
  hash = hash_combine(hash, kernel.workspace_bytes);
  hash = hash_combine(hash, kernel.private_bytes);
  hash = hash_combine(hash, kernel.packed_bytes);
  for (int64_t bytes : kernel.managed_bytes) hash = hash_combine(hash, bytes);
  for (const Buffer& b : kernel.buffers) {
    hash = hash_combine(hash, pack(static_cast<int>(b.type) << 8 | static_cast<int>(b.scope),
                                   b.slot * 2 + b.written));
    hash = hash_combine(hash, static_cast<uint64_t>(b.elements) * 31 + b.offset);
    if (b.scope == Scope::kManaged) hash = hash_combine(hash, b.memory);
    if (b.swizzled) hash = hash_combine(hash, kSwizzle);
  }
  for (const Register& r : kernel.registers) {
    hash = hash_combine(hash, pack(static_cast<int>(r.type), r.lanes));
  }
  return hash_list(hash_list(hash, kernel.body), kernel.prepack);
}

bool uses_argument(const Kernel& kernel, int slot) {
  const auto is_it = [&](int buffer) {
    return buffer >= 0 && kernel.buffers[static_cast<size_t>(buffer)].scope == Scope::kArgument &&
           kernel.buffers[static_cast<size_t>(buffer)].slot == slot;
  };
  const std::function<bool(const std::vector<Stmt>&)> any = [&](const std::vector<Stmt>& list) {
    return std::any_of(list.begin(), list.end(), [&](const Stmt& s) {
      if (is_it(s.buffer) || any(s.body) || any(s.otherwise)) return true;
      if (s.block == nullptr) return false;
      return is_it(s.block->dst.buffer) ||
             std::any_of(std::begin(s.block->srcs), std::end(s.block->srcs),
                         [&](const View& view) { return is_it(view.buffer); });
    });
  };
  return any(kernel.body);
}

}  // namespace lw
