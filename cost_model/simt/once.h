// What a launch moves at least, of all units together: the analysis knows what one of them touches,
// which fits a cache that all share even where nothing of the whole does. Internal to cost_model. Pure.
#pragma once

#include "cost_model/cpu/analysis.h"
#include "schedules/nest.h"

namespace lw::cost::simt {

struct Once {
  double read = 0, written = 0;            // bytes
};

// Of the launch of the analysis' stage `root`: its tensors, each once, as far as a cache of so many
// bytes has lost them since the call before.
Once once(const Nest& nest, const Analysis& analysis, int root, double cache_bytes);

}  // namespace lw::cost::simt
