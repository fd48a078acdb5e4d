// The loops of a launch, dealt to a group's items. Internal to cost_model/simt. Pure.
#pragma once

#include <vector>

#include "absl/container/inlined_vector.h"
#include "cost_model/cpu/analysis.h"
#include "schedules/nest.h"

namespace lw::cost::simt {

// Of the chain of the stage's hosts and its own, the loop at position `l`.
inline const Loop* loop_at(const Nest& nest, const Analysis& analysis, const StageCost& cost, int l) {
  const StageCost* owner = &cost;
  while (owner->host >= 0 && l < owner->depth) owner = &analysis.stages[owner->host];
  return &nest.stages[owner->stage].loops[l - owner->depth];
}

// How a stage's work is dealt to a group's items, and how a step to the next item moves its axes.
struct Dealing {
  struct Part {
    double count = 1;
    absl::InlinedVector<double, 8> moves;  // points, of each axis
  };
  absl::InlinedVector<Part, 2> parts;      // none: each item does all of it
  double dealt = 1;                        // iterations
  double scale = 1;                        // of the work as the analysis counts it
  AxisMask masked = 0;                     // axes of tiles that are masked at an edge
};

inline double product(const std::vector<double>& values) {
  double all = 1;
  for (const double value : values) all *= value;
  return all;
}

inline std::vector<double> box_of(const StageCost& cost, int position) {
  return {cost.box_at(position), cost.box_at(position) + cost.axes()};
}

}  // namespace lw::cost::simt
