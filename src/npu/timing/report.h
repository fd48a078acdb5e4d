// A simulated time, for people and for programs. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "src/npu/timing/timing.h"

namespace lw::npu {

// The bound that is largest: "array", and its cycles.
std::pair<std::string_view, double> limiting_bound(const Bounds& bounds);

std::string timing_text(const Config& config, const Timing& timing);
// By name, in cycles where they are times; what is 0 is left out:
//   cycles instructions macs bytes_read bytes_written dram_bytes chunks row_hits activates
//   queue_full efficiency busy.ENGINE stall.ENGINE.{token,dispatch,engine,bus}
//   bound.{mac,array,dma,vector,dispatch}      ENGINE: LD MX VE ST
std::vector<std::pair<std::string, double>> timing_counters(const Timing& timing);
// That the program ended and took time; kDataLoss: why not, in a line.
absl::Status check_ended(const Timing& timing);

// One object; the names are those of timing.h.
std::string timing_json(const Config& config, const Timing& timing);

// Chrome's trace events (chrome://tracing, Perfetto): a track for each engine, microseconds of the
// simulated clock. REQUIRES: the spans are of this program.
std::string timeline_json(const Config& config, const Program& program,
                          const std::vector<Span>& spans);

}  // namespace lw::npu
