// Transposed convolutions on an NPU. Which taps of the window meet a point of the result depends on
// a remainder of its position. The points of one remainder, a phase, are a convolution of stride 1
// with every n-th tap. phase_taps (steps/npu) makes these loops; what they go through lies dense in
// the memories, n apart in DRAM. Internal to schedules/npu, its steps and rules.
#pragma once

#include <vector>

#include "schedules/nest.h"
#include "schedules/npu/product.h"

namespace lw {

// An axis of the result and one of its sum of which only pairs with (axis + offset - sum) % n == 0
// add anything; with n = 1 they all do, but something is read backwards along the sum.
struct TapAxes {
  int axis, sum;                           // of the tensor, reductions behind the others
  int64_t n, offset;
};
std::vector<TapAxes> tap_axes(const Nest& nest, int stage);

// The stage's effective body without what chooses it at all of the stage's points, or at all that
// are read.
Expr chosen_body(const Nest& nest, int stage);

// Makes dimensions of b and of the result two, quotients and remainders, where an axis outside of
// what a tile has runs over the remainders.
void separate_phases(const Stage& stage, NpuProduct& product);

// Of the tensor's axes those of which the stage's points leave the extents.
std::vector<NpuProduct::Limit> limits_of(const Nest& nest, int stage);

}  // namespace lw
