// The convolutions among contractions: a sum of products in which one operand is read through
// windows (index = position * stride + tap * dilation - padding).
#pragma once

#include "bench/peers/access.h"
#include "bench/peers/flow.h"
#include "bench/peers/peer.h"

namespace lw {

// A dense, grouped or depthwise convolution of any rank, or monostate. `flow` is what happens to
// the contraction's result.
PeerCase match_convolution(const Program& program, const Flow& flow, const Product& product);

}  // namespace lw
