// What a simulated machine does during one call, for the report and the service's page. Pure
// functions.
#pragma once

#include <string>
#include <vector>

#include "src/measure/run/simulation.h"

namespace lw {

// "106,760 cycles, 106.8 us; its instructions need at least 102,400, set by dma: 95.9 %".
std::string timeline_note(const Simulation& simulation);

// What its colors mean, as far as they occur: a class of the page's style, and words.
struct TimelineColor {
  std::string look, meaning;
};
std::vector<TimelineColor> timeline_colors(const Simulation& simulation);

// As SVG: a row for each engine, with its shares as data-tip, and under them, on the same axis,
// what the program cannot be below. A column of a row is a few pixels wide and has each state as
// high as its share of that time, so a million instructions are drawn in no more than ten are.
// `attributes`: of each row, as HTML.
std::string timeline_chart(const Simulation& simulation, const std::string& attributes = "");

}  // namespace lw
