// Recognises in a program what libraries have an operator for.
#pragma once

#include "src/expr/expr.h"
#include "src/peers/peer.h"

namespace lw {

// What `program` computes in a library's terms, from its structure and values alone; monostate when
// no library would know it (a min-plus product, a fused chain, several outputs, types but f32).
// Deterministic, thread-safe.
PeerCase match_peer_case(const Program& program);

// "gemm 1000 x 1000 x 1000, bias + relu": for tables and logs.
std::string describe(const PeerCase& description);

}  // namespace lw
