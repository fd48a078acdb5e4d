#include "src/figures/timeline.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "src/base/message.h"
#include "src/figures/format.h"
#include "src/figures/svg.h"

namespace lw {
namespace {

constexpr int kBarsWidth = 1200, kBarsLeft = 96, kBarsRight = 112, kBarsTop = 8, kAxis = 40;
constexpr int kRow = 30, kRowGap = 8, kBar = 9, kBarGap = 9;  // engines; limits
constexpr int kColumn = 3;                 // pixels
constexpr int kColumns = (kBarsWidth - kBarsLeft - kBarsRight) / kColumn;

double x_of(double time, double end) { return kBarsLeft + time / end * kColumns * kColumn; }

std::string text(double x, double y, const char* look, const std::string& words) {
  return absl::StrFormat("<text x='%.1f' y='%.1f' %s>%s</text>\n", x, y, look, escape_html(words));
}

// Shares of each column, by state.
std::vector<std::vector<double>> columns_of(const Simulation::Engine& engine, double end) {
  std::vector<std::vector<double>> columns(kColumns,
                                           std::vector<double>(engine.shares.size(), 0));
  for (const Simulation::Interval& one : engine.intervals) {
    const double from = one.begin / end * kColumns, to = one.end / end * kColumns;
    for (int c = static_cast<int>(from); c < kColumns && c < to; ++c) {
      columns[c][one.state] += std::min(to, c + 1.0) - std::max<double>(from, c);
    }
  }
  return columns;
}

// Of each state a path: rectangles on top of those of the states before it, those side by side that
// are alike in one.
std::string engine_paths(const Simulation::Engine& engine, double end, int top) {
  const std::vector<std::vector<double>> columns = columns_of(engine, end);
  std::vector<std::string> paths(engine.shares.size());
  struct Run {
    int from = 0, low = 0, high = 0;
  };
  std::vector<Run> runs(engine.shares.size());
  const auto draw = [&](size_t state, int to) {
    const Run& run = runs[state];
    if (run.high == run.low) return;
    absl::StrAppendFormat(&paths[state], "M%d %dh%dv%dh-%dz", kBarsLeft + run.from * kColumn,
                          top + kRow - run.high, (to - run.from) * kColumn, run.high - run.low,
                          (to - run.from) * kColumn);
  };
  for (int c = 0; c <= kColumns; ++c) {
    double sum = 0;
    for (size_t state = 0; state < runs.size(); ++state) {
      Run next{c, static_cast<int>(std::lround(kRow * std::min(1.0, sum))), 0};
      if (c < kColumns) sum += columns[c][state];
      next.high = static_cast<int>(std::lround(kRow * std::min(1.0, sum)));
      if (c < kColumns && next.low == runs[state].low && next.high == runs[state].high) continue;
      draw(state, c);
      runs[state] = next;
    }
  }
  std::string out;
  for (size_t state = 0; state < paths.size(); ++state) {
    if (paths[state].empty()) continue;
    absl::StrAppendFormat(&out, "<path class='state%d' d='%s'/>\n", state, paths[state]);
  }
  return out;
}

std::string shares_text(const Simulation& simulation, const Simulation::Engine& engine) {
  std::string all;
  for (size_t state = 0; state < engine.shares.size(); ++state) {
    if (engine.shares[state] == 0) continue;
    all += concat(all.empty() ? "" : ", ", simulation.states[state], " ",
                  percent(engine.shares[state]));
  }
  return concat(engine.name, ": ", all.empty() ? "idle" : all);
}

}  // namespace

std::string timeline_note(const Simulation& simulation) {
  const Simulation::Limit& limit = simulation.limits.front();
  return concat(whole(simulation.time), " ", simulation.unit, ", ", micros(simulation.us),
                "; its instructions need at least ", whole(limit.time), ", set by ", limit.name,
                ": ", percent(simulation.efficiency()));
}

std::vector<TimelineColor> timeline_colors(const Simulation& simulation) {
  std::vector<TimelineColor> colors;
  for (size_t state = 0; state < simulation.states.size(); ++state) {
    const bool seen = std::any_of(simulation.engines.begin(), simulation.engines.end(),
                                  [&](const auto& engine) { return engine.shares[state] > 0; });
    if (seen) colors.push_back({concat("state", state), simulation.states[state]});
  }
  colors.push_back({"limit", "at least, by limit"});
  return colors;
}

std::string timeline_chart(const Simulation& simulation, const std::string& attributes) {
  const double end = simulation.time;
  std::string out;
  int y = kBarsTop;
  const int bars = kBarsTop + static_cast<int>(simulation.engines.size()) * (kRow + kRowGap) + 6;
  const int bottom = bars + static_cast<int>(simulation.limits.size()) * (kBar + kBarGap);
  for (double v : ticks({0, end, false}, 10)) {
    absl::StrAppendFormat(&out, "<line class='grid' x1='%.1f' x2='%.1f' y1='%d' y2='%d'/>\n",
                          x_of(v, end), x_of(v, end), kBarsTop, bottom);
    out += text(x_of(v, end), bottom + 16, "class='tick' text-anchor='middle'",
                whole(v));
  }
  for (const Simulation::Engine& engine : simulation.engines) {
    absl::StrAppendFormat(&out,
                          "<g %s data-tip='%s'><rect class='idle' x='%d' y='%d' width='%d' "
                          "height='%d'/>\n",
                          attributes, escape_html(shares_text(simulation, engine)), kBarsLeft, y,
                          kColumns * kColumn, kRow);
    out += engine_paths(engine, end, y) + "</g>\n";
    out += text(kBarsLeft - 10, y + kRow / 2 + 4, "class='label' text-anchor='end'", engine.name);
    out += text(kBarsLeft + kColumns * kColumn + 10, y + kRow / 2 + 4, "class='tick'",
                percent(engine.busy) + " busy");
    y += kRow + kRowGap;
  }
  y = bars;
  for (const Simulation::Limit& limit : simulation.limits) {
    const bool largest = &limit == &simulation.limits.front();
    absl::StrAppendFormat(&out,
                          "<rect class='limit' x='%d' y='%d' width='%.1f' height='%d' "
                          "opacity='%s'/>\n",
                          kBarsLeft, y, x_of(limit.time, end) - kBarsLeft, kBar,
                          largest ? "1" : ".45");
    out += text(kBarsLeft - 10, y + kBar, "class='tick' text-anchor='end'", limit.name);
    out += text(kBarsLeft + kColumns * kColumn + 10, y + kBar, "class='tick'",
                concat(whole(limit.time), ", ", percent(limit.time / end)));
    y += kBar + kBarGap;
  }
  absl::StrAppendFormat(&out, "<line class='axis' x1='%d' x2='%d' y1='%d' y2='%d'/>\n", kBarsLeft,
                        kBarsLeft + kColumns * kColumn, bottom, bottom);
  out += text(kBarsLeft + kColumns * kColumn / 2, bottom + kAxis - 6,
              "class='title' text-anchor='middle'", simulation.unit);
  return absl::StrFormat("<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' role='img' "
                         "aria-label='Timeline'>\n%s</svg>\n",
                         kBarsWidth, bottom + kAxis, out);
}

}  // namespace lw
