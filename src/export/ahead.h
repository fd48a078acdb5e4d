// What a schedule fetches ahead, as functions of the payload: a script calls each with the part of
// an operand that a register tile, or a row of it, is about to read.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "schedules/nest.h"
#include "src/export/fidelity.h"
#include "src/export/operation.h"
#include "src/export/tiling.h"

namespace lw {

struct Ahead {
  int operand;                             // of the operation
  int loops;                               // of Tiling::points around it; 0: of the whole tile
  std::vector<int64_t> distance;           // elements along each dimension, from what is read
  std::vector<std::vector<int64_t>> lines; // positions in that part: one of each line to be fetched
};

// Of the operation's schedule. `fidelity`: by the tensor fetched.
std::vector<Ahead> fetched_ahead(const Nest& nest, const Operation& operation,
                                 const Tiling& tiling, std::map<std::string, Fidelity>* fidelity);

// A func.func of one tensor, of any extents, without a result. It calls what is declared, once in a
// module, by ahead_declaration(): memref.prefetch does not say that it frees nothing, which is why
// MLIR 19 frees no memory where it stands.
std::string ahead_declaration();
std::string ahead_function(const Nest& nest, const Operation& operation, const Ahead& ahead,
                           const std::string& symbol);

}  // namespace lw
