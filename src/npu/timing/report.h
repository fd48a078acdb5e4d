// A simulated time, for people and for programs. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "src/npu/timing/timing.h"

namespace lw::npu {

// The bound that is largest: "array", and its cycles.
std::pair<std::string_view, double> limiting_bound(const Bounds& bounds);

std::string timing_text(const Config& config, const Timing& timing);
// One object; the names are those of timing.h.
std::string timing_json(const Config& config, const Timing& timing);

// Chrome's trace events (chrome://tracing, Perfetto): a track for each engine, microseconds of the
// simulated clock. REQUIRES: the spans are of this program.
std::string timeline_json(const Config& config, const Program& program,
                          const std::vector<Span>& spans);

}  // namespace lw::npu
