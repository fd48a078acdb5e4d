#include "src/lower/tiles/boxes.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "src/kernel/ops.h"

namespace lw::lowering {
namespace {

// Whether the tensor lies there whole, row after row, and nobody writes it.
bool is_plain(const Emitter& e, const Storage& storage) {
  const auto zero = [](const Affine& a) { return a == affine(0); };
  return storage.buffer >= 0 && is_constant(e.kernel.buffers[storage.buffer]) &&
         storage.block_dim < 0 && storage.group_dim < 0 && storage.pad == 0 &&
         zero(storage.offset) &&
         std::all_of(storage.origin.begin(), storage.origin.end(), zero);
}

}  // namespace

void copy_boxes(Emitter& e, int stage, const std::vector<AxisState>& axes) {
  const Storage &to = e.copies[stage], &from = e.home[e.nest.stages[stage].copy_of];
  const int dims = static_cast<int>(axes.size()), last = dims - 1;
  if (!is_plain(e, from) || (to.block_dim >= 0 && to.block_dim != last)) {
    if (e.failure.ok()) e.failure = infeasible("a box of no tensor that lies row after row");
    return;
  }
  Block box;
  box.op = BlockOp::kCopy;
  box.pads = true;
  for (const AxisState& axis : axes) box.extents.push_back(axis.extent);
  const int64_t whole = axes[last].extent, block = to.block_dim == last ? to.block : whole;
  box.extents.back() = block;
  box.dst = {to.buffer, to.offset, {}};
  box.srcs[0] = {from.buffer, {}, {}};
  box.dst.strides.resize(dims);
  box.srcs[0].strides.resize(dims);
  int64_t dense = 1, row = 1;
  for (int d = last; d >= 0; --d) {
    box.dst.strides[d] = std::exchange(dense, dense * box.extents[d]);
    box.srcs[0].strides[d] = std::exchange(row, row * from.shape[d]);
  }
  for (int64_t begin = 0; begin < whole; begin += block) {
    auto one = std::make_shared<Block>(box);
    one->dst.index = one->dst.index + affine(begin / block * dense);
    for (int d = 0; d < dims; ++d) {
      const Affine first = axes[d].base + affine(d == last ? begin : 0);
      one->clips.push_back({d, first, from.shape[d]});
      one->srcs[0].index = one->srcs[0].index + first * one->srcs[0].strides[d];
    }
    Stmt copy;
    copy.op = Op::kBoxCopy;
    copy.block = std::move(one);
    e.emit(std::move(copy));
  }
}

}  // namespace lw::lowering
