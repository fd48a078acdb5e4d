// How many registers ptxas gives an item. Internal to cost_model. Pure.
#pragma once

#include "cost_model/cpu/analysis.h"
#include "schedules/nest.h"
#include "schedules/targets/simt/simt_target.h"

namespace lw::cost::simt {

// Of 32 bits, for a stage's tile, of a group of so many items; more than there are, where that is
// what it takes. 0: the target does not say how many there are.
double item_registers(const Nest& nest, const Analysis& analysis, const StageCost& cost,
                      double items);
// So many there are, of an item of a group of so many. REQUIRES: target.unit_register_bytes > 0.
double most_registers(const SimtTarget& target, double items);

}  // namespace lw::cost::simt
