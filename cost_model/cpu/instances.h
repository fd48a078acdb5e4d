// How often a stage's register tile runs, and in which sizes. Internal to cost_model.
#pragma once

#include <vector>

#include "absl/container/inlined_vector.h"
#include "cost_model/cpu/analysis.h"

namespace lw::cost {

struct Sizes {
  double size, count;
};
using Distribution = absl::InlinedVector<Sizes, 3>;

// Sizes that each axis takes in the register tile, and how often, within one run of the stage.
// `instances`: how many combinations, each of which is code of its own.
std::vector<Distribution> tile_sizes(const Stage& stage, const StageCost& cost, double* instances);

// The share of its runs that is left by conditions which its hosts decide outside of the stage.
double share_of_hosts(const Analysis& analysis, const StageCost& cost);

}  // namespace lw::cost
