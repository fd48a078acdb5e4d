// The functions that libraries have, as plain loops over f64: what a program's values are compared
// with to name what it computes.
#pragma once

#include <optional>
#include <vector>

#include "src/peers/match/flow.h"
#include "src/peers/peer.h"

namespace lw {

// What the program does to its contraction `flow.source` before storing it; `scale` and `bias` are
// set to the parameters' tensors (-1: none). Null when no library knows it.
struct KnownEpilogue {
  PeerEpilogue kind = PeerEpilogue::kNone;
  int scale = -1, bias = -1;
};
std::optional<KnownEpilogue> known_epilogue(const Program& program, const Flow& flow,
                                            int channel_label);

// y = f(x), element by element. Null: unknown; `identity`: a copy or transposition.
struct KnownUnary {
  bool identity = false;
  PeerUnary::Kind kind = PeerUnary::Kind::kRelu;
};
std::optional<KnownUnary> known_unary(const Program& program, const Flow& flow);

std::optional<PeerReduction::Kind> known_reduction(const Program& program, const Flow& flow);

// Softmax, layer or RMS norm over each group; tensors of gamma and beta, or -1.
struct KnownRows {
  PeerRows::Kind kind = PeerRows::Kind::kSoftmax;
  double epsilon = 0;
  int gamma = -1, beta = -1;
};
std::optional<KnownRows> known_rows(const Program& program, const Flow& flow);

}  // namespace lw
