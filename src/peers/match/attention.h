// Recognises attention: a product of matrices, the softmax of its rows, a second product.
#pragma once

#include "src/expr/expr.h"
#include "src/peers/peer.h"

namespace lw {

// `first` and `second` are the program's two contractions, in its order. Monostate when what lies
// between them is not the softmax of scaled scores, or the result is not the second product
// (divided by the sum of the exponentials where that was not done before).
PeerCase match_attention(const Program& program, int first, int second);

}  // namespace lw
