// The convolutions among contractions: a sum of products in which one operand is read through
// windows (index = position * stride + tap * dilation - padding).
#pragma once

#include "src/peers/match/access.h"
#include "src/peers/match/flow.h"
#include "src/peers/peer.h"

namespace lw {

// A dense, grouped or depthwise convolution of any rank, or monostate. `flow` is what happens to
// the contraction's result.
PeerCase match_convolution(const Program& program, const Flow& flow, const Product& product);

}  // namespace lw
