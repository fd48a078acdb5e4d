#include "src/cli/report/tuned_charts.h"

#include <string_view>
#include <utility>

#include "src/api/task.h"
#include "src/base/message.h"
#include "src/cli/report/report.h"
#include "src/figures/format.h"

namespace lw {
namespace {

// Lines and text in colors that are seen on light and on dark; the ink is that of the text around.
constexpr char kStyle[] = R"css(<style>
.loopwright { --ink: currentColor; --soft: #808a96; --line: #80808040; --one: #2f7de1;
  --more: #d9701e; --card: none; display: block; max-width: 100%; font-family: sans-serif }
.loopwright .grid { stroke: var(--line) } .loopwright .axis { stroke: var(--soft) }
.loopwright .tick { fill: var(--soft); font-size: 11px }
.loopwright .title { fill: var(--soft); font-size: 12px }
.loopwright .label { fill: var(--ink); font-size: 11.5px }
.loopwright .curve { stroke-width: 2 } .loopwright .roof { stroke-dasharray: 5 3; opacity: .7 }
</style>
)css";

constexpr int kCurve = 450, kRoofline = 900;  // pixels: letters of one size

// "" where the chart has nothing to show, which is no SVG.
std::string with_style(std::string chart, int width) {
  constexpr std::string_view kBegin = "<svg ";
  if (!chart.starts_with(kBegin)) return "";
  chart.insert(chart.find('>') + 1, concat("\n", kStyle));
  return chart.insert(kBegin.size(), concat("xmlns='http://www.w3.org/2000/svg' class='loopwright' "
                                            "width='", width, "' "));
}

}  // namespace

TunedCharts charts_of(const Task& task, const TuneResult& result, const Bound& bound) {
  const Measurement& best = result.best.measurement;
  ReportTask one;
  one.words = task.workload().source_words;
  one.name = task.workload().name;
  one.threads = task.threads();
  one.trials = result.trials;
  one.flops = bound.flops.useful;
  one.bytes = bound.bytes;
  one.best_us = best.time_us;
  one.time_kind = best.time_kind;
  one.seconds = result.wall_s;
  for (const CurvePoint& point : result.curve) {
    one.curve.push_back({point.wall_s, point.trials, point.best_us});
  }
  Report report;
  if (bound.peak_gflops > 0 && bound.bandwidth_gbytes > 0) {
    const PeakKind kind = peak_kind(*task.program(), *task.target());
    report.peaks.push_back({kind.name(), one.threads, bound.peak_gflops});
    DoctorReport::Level level{.name = concat(number(bound.bandwidth_gbytes, 3), " GB/s"),
                              .threads = one.threads, .read = bound.bandwidth_gbytes};
    report.machine.emplace().levels.push_back(std::move(level));
  }
  report.tasks.push_back(one);
  return {with_style(curve_chart(report.tasks, /*against_trials=*/false), kCurve),
          with_style(roofline_chart(report), kRoofline)};
}

}  // namespace lw
