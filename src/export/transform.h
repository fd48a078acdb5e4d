// A schedule as a transform script for stock MLIR, applied to what linalg.h prints.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/export/fidelity.h"
#include "src/export/operation.h"

namespace lw {

// Of one stage; by what steps decide.
struct StageFidelity {
  Fidelity loops, tails, tile, parallel, place;
  std::map<std::string, Fidelity> copies, prefetches;  // by the tensor that is read
};

struct Script {
  std::string text;                        // two named sequences: SYMBOL_schedule, SYMBOL_unroll
  std::string functions;                   // of the payload, which it calls
  std::map<std::string, StageFidelity> stages;  // by name
};

// The same of the function that makes what is made once (linalg_prepack()).
std::string prepack_script(const Nest& nest, const std::vector<Operation>& operations,
                           const std::string& symbol);

// Of the function `symbol`. `operations`: of all stages that are computed, in order.
Script transform_script(const Nest& nest, const std::vector<Operation>& operations,
                        const std::string& symbol);

}  // namespace lw
