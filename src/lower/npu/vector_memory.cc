#include "src/lower/npu/vector_memory.h"

#include <algorithm>
#include <bit>

#include "schedules/targets/npu/machine.h"
#include "src/expr/expr.h"

namespace lw::lowering {

using Kind = VectorValue::Kind;

int64_t VectorMemory::step_in(int v, int axis) const {
  int64_t step = 0;
  const Placed& p = placed_[static_cast<size_t>(v)];
  for (size_t d = 0; d < p.layout.strides.size(); ++d) {
    step += value(v).tile.steps[d][static_cast<size_t>(axis)] * p.layout.strides[d];
  }
  return step;
}

std::string VectorMemory::name_of(int v) const {
  if (value(v).tensor < 0) return concat("v", v);
  return concat("v", v, ".", nest_.program->tensors[value(v).tensor].name);
}

void VectorMemory::place_values(const std::vector<int64_t>& extents, int64_t slots) {
  placed_.resize(code_.values.size());
  for (int v = 0; v < count(); ++v) {
    Placed& p = placed(v);
    const VectorTile& tile = value(v).tile;
    if (value(v).kind == Kind::kHeld) continue;
    p.layout = tile_layout(config_, tile, extents);
    if (value(v).kind == Kind::kComputed) continue;
    if (value(v).kind == Kind::kOperand) p.slots = slots;
    p.depth = innermost(value(v).source_steps);
    p.buffer = add_managed(named(name_of(v)), tile.type, tile.memory, p.layout.elements * p.slots,
                           take(tile.memory, p.layout.bytes * p.slots));
  }
  for (const std::vector<int>& place : code_.places) {
    const bool kept = place[0] == code_.result || place[0] == code_.stored;
    const int64_t own = kept ? slots : 1;
    int64_t most = 0;
    for (const int v : place) most = std::max(most, placed(v).layout.bytes);
    const int64_t offset = take(value(place[0]).tile.memory, most * own);
    for (const int v : place) {
      const VectorTile& tile = value(v).tile;
      placed(v).slots = own;
      placed(v).buffer = add_managed(named(name_of(v)), tile.type, tile.memory,
                                     placed(v).layout.elements * own, offset);
    }
  }
}

// Loops outside of where what moves by these steps is copied: up to the innermost that moves it.
int VectorMemory::innermost(const std::vector<int64_t>& steps) const {
  for (int l = steps.empty() ? 0 : tile_begin_; l-- > 0;) {
    if (trips(stage_, l) > 1 && steps[static_cast<size_t>(stage_.loops[l].parts[0].axis)] != 0) {
      return l + 1;
    }
  }
  return 0;
}

void VectorMemory::make_once() {
  for (int v = 0; v < count(); ++v) {
    if (value(v).kind == Kind::kRow) make_row(v);
  }
  if (code_.by_rows) make_identity();
  if (!code_.ragged.empty()) make_ragged();
  if (code_.numbers > 0) make_indices();
  for (int v = 0; v < count(); ++v) {
    if (value(v).borders.empty() || value(v).number == 0) continue;
    const VectorTile& tile = value(v).tile;
    placed(v).numbers =
        make_numbers(stage_.name, tile.type, tile.memory, tile_padding(config_, tile),
                     value(v).number);
  }
}

// ACC has what computes a row of words, SPM is where it is read: by way of DRAM.
void VectorMemory::make_row(int v) {
  const VectorValue& row = value(v);
  const Type type = row.tile.type;
  const int64_t elements = placed(v).layout.elements;
  const std::vector<int64_t> unit = {1};
  int made;
  if (row.tensor < 0) {
    made = make_numbers(stage_.name, type, kNpuAcc, elements, row.number);
  } else {
    const int64_t padding = tile_padding(config_, {type, kNpuAcc, {}});
    const int one =
        add_managed(named("number"), type, kNpuAcc, padding, take(kNpuAcc, 4 * padding));
    add(block_of(BlockOp::kCopy, view(one, affine(0), unit),
                 {view(buffers_[row.tensor], affine(row.source_begin), unit)}, {1}),
        kernel_.body);
    made = add_managed(named("numbers"), type, kNpuAcc, elements, take(kNpuAcc, 4 * elements));
    add(block_of(BlockOp::kCopy, view(made, affine(0), unit),
                 {view(one, affine(0), std::vector<int64_t>{0})}, {elements}),
        kernel_.body);
  }
  const int scratch = add_scratch(named("scratch"), type, elements);
  add(block_of(BlockOp::kCopy, view(scratch, affine(0), unit), {view(made, affine(0), unit)},
               {elements}),
      kernel_.body);
  add(block_of(BlockOp::kCopy, view(placed(v).buffer, affine(0), unit),
               {view(scratch, affine(0), unit)}, {elements}),
      kernel_.body);
}

void VectorMemory::make_identity() {
  const VectorTile& tile = value(code_.rows).tile;
  identity_ = make_numbers(stage_.name, tile.type, tile.memory, tile_padding(config_, tile),
                           identity_of(code_.reduce, tile.type));
}

void VectorMemory::make_ragged() {
  const int64_t elements = tile_padding(config_, {Type::kI32, kNpuAcc, {}});
  const int64_t row = stage_.axes[static_cast<size_t>(code_.vector_axis)].extent;
  ones_ = make_mask(stage_.name, elements, row % elements);
  for (const VectorCode::Ragged& ragged : code_.ragged) {
    const double identity = identity_of(ragged.reduce, ragged.type);
    const int32_t bits = ragged.type == Type::kF32
                             ? std::bit_cast<int32_t>(static_cast<float>(identity))
                             : static_cast<int32_t>(identity);
    rest_bits_.push_back(bits == 0 ? -1 : make_rest(elements, bits));
  }
}

// Where the mask has ones zeros, elsewhere `bits`: (mask - 1) * -bits, which wraps around.
int VectorMemory::make_rest(int64_t elements, int32_t bits) {
  const int rest = add_managed(named("identity"), Type::kI32, kNpuAcc, elements,
                               take(kNpuAcc, 4 * elements));
  const std::vector<int64_t> unit = {1};
  const View to = view(rest, affine(0), unit);
  Block minus = block_of(BlockOp::kScalar, to, {view(ones_, affine(0), unit)}, {elements});
  minus.number = -1;
  add(std::move(minus), kernel_.body);
  Block times = block_of(BlockOp::kScalar, to, {to}, {elements});
  times.expr_op = ExprOp::kMul;
  times.number = static_cast<int32_t>(-static_cast<uint32_t>(bits));
  add(std::move(times), kernel_.body);
  return rest;
}

// Twice as many each time, and then so many at once: what is there, and how many that is added.
void VectorMemory::make_indices() {
  const int64_t all = code_.numbers, most = numbers_at_once(config_, code_);
  const std::vector<int64_t> unit = {1};
  const int made = add_managed(named("numbers"), Type::kI32, kNpuAcc, most,
                               take(kNpuAcc, 4 * most));
  numbers_ = add_scratch(named("indices"), Type::kI32, all);
  const auto here = view(made, affine(0), unit);
  const auto store = [&](int64_t begin, int64_t count) {
    add(block_of(BlockOp::kCopy, view(numbers_, affine(begin), unit), {here}, {count}),
        kernel_.body);
  };
  const auto load = [&](int64_t count) {
    add(block_of(BlockOp::kCopy, here, {view(numbers_, affine(0), unit)}, {count}), kernel_.body);
  };
  const auto raise = [&](int64_t by) {
    Block block = block_of(BlockOp::kScalar, here, {here}, {most});
    block.number = static_cast<double>(by);
    add(std::move(block), kernel_.body);
  };
  add(block_of(BlockOp::kFill, here, {}, {most}), kernel_.body);
  store(0, 1);
  const int64_t first = std::min(all, most);
  for (int64_t there = 1; there < first; there *= 2) {
    load(there);
    raise(there);
    store(there, std::min(there, first - there));
  }
  if (first < all) load(first);
  for (int64_t there = first; there < all; there += first) {
    raise(first);
    store(there, std::min(first, all - there));
  }
}

int VectorMemory::words_of(int v) {
  Placed& p = placed(v);
  if (p.words < 0 && value(v).tile.type == Type::kI32) p.words = p.buffer;
  if (p.words < 0) {
    const Buffer buffer = kernel_.buffers[static_cast<size_t>(p.buffer)];
    p.words = add_managed(named(concat(name_of(v), ".words")), Type::kI32, buffer.memory,
                          buffer.elements, buffer.offset);
  }
  return p.words;
}

}  // namespace lw::lowering
