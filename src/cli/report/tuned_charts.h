// The charts of one search, for who shows them elsewhere than on the report's page: SVG that brings
// its style along.
#pragma once

#include <string>

#include "loopwright/task.h"
#include "src/measure/machine/limits.h"
#include "src/search/search.h"

namespace lw {

struct TunedCharts {
  std::string curve;                       // the best so far against time, as a share of the last
  std::string roofline;                    // "": nothing of it was measured on this machine
};
// REQUIRES: the best of the result is valid; `bound` was measured beside it.
TunedCharts charts_of(const Task& task, const TuneResult& result, const Bound& bound);

}  // namespace lw
