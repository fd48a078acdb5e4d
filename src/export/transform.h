// A schedule as a transform script for stock MLIR, applied to what linalg.h prints.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "src/export/operation.h"

namespace lw {

// How much of a schedule's decision the script keeps. Values are the same whatever it is.
enum class Grade : uint8_t {
  kExact,                                  // the same loops
  kApproximate,                            // other loops for the same purpose
  kLost,                                   // only speed suffers
  kRefused,                                // there is no script
};
struct Fidelity {
  Grade grade = Grade::kExact;
  std::string why;                         // unless exact
};

// Of one stage; by what steps decide.
struct StageFidelity {
  Fidelity loops, tails, tile, parallel, place;
};

struct Script {
  std::string text;                        // two named sequences: SYMBOL_schedule, SYMBOL_unroll
  std::map<std::string, StageFidelity> stages;  // by name
};

// Of the function `symbol`. `operations`: of all stages that are computed, in order.
Script transform_script(const Nest& nest, const std::vector<Operation>& operations,
                        const std::string& symbol);

}  // namespace lw
