// Where what items read lies. Internal to cost_model/simt. Pure.
#pragma once

#include "cost_model/cpu/analysis.h"
#include "cost_model/simt/launches.h"
#include "schedules/nest.h"

namespace lw::cost::simt {

// What the stage computes or copies; -1: an input of the program.
inline Where where_of(const Nest& nest, int stage) {
  if (stage < 0) return Where::kGlobal;
  const Stage& s = nest.stages[stage];
  const Stage& runs = s.place == Place::kEpilogue ? nest.stages[s.host] : s;
  if (runs.place != Place::kAt) return Where::kGlobal;
  return runs.memory >= 0 ? Where::kLocal : Where::kOwn;
}

inline Where where_read(const Nest& nest, const StageCost& cost, const Access& access) {
  if (!access.epilogue) {
    for (const Stage::Copy& copy : nest.stages[cost.stage].copies) {
      if (copy.tensor == access.tensor) return where_of(nest, copy.stage);
    }
  }
  return where_of(nest, stage_of_tensor(nest, access.tensor));
}

}  // namespace lw::cost::simt
