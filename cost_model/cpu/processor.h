// Other machines that compute in registers, as processors: what the analysis of CPUs says of them.
// Internal to cost_model.
#pragma once

#include "schedules/nest.h"

namespace lw::cost::cpu {

// The nest, on processors that have the target's registers, caches and atoms, of which a parallel
// loop costs `parallel_us` beyond its work. REQUIRES: its target computes in registers.
Nest as_on_processors(Nest nest, double parallel_us);

}  // namespace lw::cost::cpu
