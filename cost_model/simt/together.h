// What items in step touch as they go through loops together. Internal to cost_model. Pure.
#pragma once

#include "cost_model/cpu/analysis.h"

namespace lw::cost::simt {

// What is touched where a group's items walk through the loops inside of theirs together: the
// analysis of such nests but for times. `walks`: set if any do.
Analysis together(const Nest& processor, const Analysis& analysis, bool* walks);

// The stage at the root at one of whose loops, or at whose own, it runs.
inline const StageCost& root_of(const Analysis& analysis, const StageCost& cost) {
  const StageCost* root = &cost;
  while (root->host >= 0) root = &analysis.stages[root->host];
  return *root;
}

}  // namespace lw::cost::simt
