// How many registers ptxas gives an item. Internal to cost_model. Pure.
#pragma once

#include "cost_model/cpu/analysis.h"
#include "schedules/nest.h"
#include "schedules/targets/simt/simt_target.h"

namespace lw::cost::simt {

// Of 32 bits, for a stage's tile, were there any number of them.
double item_registers(const Nest& nest, const StageCost& cost);
// So many there are, of an item of a group of so many. REQUIRES: target.unit_register_bytes > 0.
double most_registers(const SimtTarget& target, double items);

}  // namespace lw::cost::simt
