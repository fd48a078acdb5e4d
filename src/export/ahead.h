// What a schedule fetches ahead, as functions of the payload: a script calls each where a register
// tile is computed, with the part of an operand that the tile reads.
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
  std::vector<int64_t> distance;           // elements along each dimension, from what the tile reads
  std::vector<int64_t> step;               // along each: to the next row, or line, that it reads
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
