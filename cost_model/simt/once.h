// What a launch moves of all units together: at least, since the analysis knows what one of them
// touches, which fits a cache that all share even where nothing of the whole does; and again. Internal
// to cost_model. Pure.
#pragma once

#include "cost_model/cpu/analysis.h"
#include "cost_model/simt/launches.h"
#include "schedules/nest.h"

namespace lw::cost::simt {

struct Once {
  double read = 0, written = 0;            // bytes
};

// Of the launch of the analysis' stage `root`: its tensors, each once, as far as a cache of so many
// bytes has lost them since the call before.
Once once(const Nest& nest, const Analysis& analysis, int root, double cache_bytes);

// Bytes, of all groups. Pieces of which neighbours use little are fetched again, unless a cache of so
// many bytes, which so many units share, holds them until the rest is asked for: all of those that
// items in step are at.
double fetched_again(const Nest& nest, const Launch& launch, double capacity, double sharers);

// Groups of a cluster for all of which a copy is made once; 1: each makes its own.
double copied_once_for(const Nest& nest, int root, int copy);

}  // namespace lw::cost::simt
