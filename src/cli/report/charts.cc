// The report's charts, but for timelines (src/figures/timeline.h).
//
// Curves: many workloads share one chart, so each is drawn as the share of its final speed that its
// incumbent has, all thin, and their geometric mean thick. Roofline: useful FLOPs over compulsory
// bytes against the speed reached, below the roofs measured on this machine.
#include <algorithm>
#include <cmath>
#include <string_view>

#include "absl/strings/str_format.h"
#include "src/cli/report/report.h"
#include "src/figures/svg.h"

namespace lw {
namespace {

constexpr int kWidth = 500, kHeight = 290;
constexpr double kDot = 5;                 // radius of a point, pixels

std::string tooltip(const ReportTask& task) {
  std::string text =
      task.words + concat(" · ", task.threads, task.threads == 1 ? " thread" : " threads");
  if (task.best_us > 0) text += " · " + micros(task.best_us, task.time_kind);
  if (task.best_us > 0 && task.flops > 0)
    text += " · " + number(task.flops / task.best_us / 1e3) + " GFLOP/s";
  return escape_html(text);
}

double at(const ReportPoint& point, bool trials) {
  return trials ? point.trials : std::max(1e-2, point.seconds);
}

double final_us(const ReportTask& task) { return task.curve.back().best_us; }

// The share of its final speed that the task had reached at `x`; 0 before its first point.
double share_at(const ReportTask& task, double x, bool trials) {
  double share = 0;
  for (const ReportPoint& point : task.curve) {
    if (at(point, trials) <= x) share = final_us(task) / point.best_us;
  }
  return share;
}

std::string color_of(int threads) { return threads == 1 ? "var(--one)" : "var(--more)"; }

void draw_mean(const std::vector<const ReportTask*>& drawn, const Scale& x, bool trials,
               Chart* chart) {
  std::vector<std::pair<double, double>> mean;
  constexpr int kSteps = 160;
  for (int i = 0; i <= kSteps; ++i) {
    const double f = static_cast<double>(i) / kSteps;
    const double at = x.log ? x.low * std::pow(x.high / x.low, f) : x.low + f * (x.high - x.low);
    double sum = 0;
    bool all = true;
    for (const ReportTask* task : drawn) {
      const double share = share_at(*task, at, trials);
      all &= share > 0;
      sum += std::log(std::max(share, 1e-9));
    }
    if (all) mean.emplace_back(at, std::exp(sum / static_cast<double>(drawn.size())));
  }
  if (mean.size() > 1) chart->line(mean, "class='mean'");
}

}  // namespace

std::string curve_chart(const std::vector<ReportTask>& tasks, bool trials) {
  std::vector<const ReportTask*> drawn;
  Scale x{trials ? 0 : 1e9, trials ? 1.0 : 0.1, !trials};
  double least = 1;
  for (const ReportTask& task : tasks) {
    if (task.curve.empty()) continue;
    drawn.push_back(&task);
    if (!trials) x.low = std::min(x.low, at(task.curve.front(), trials));
    x.high = std::max(x.high, trials ? task.trials : std::max(task.seconds, 0.02));
    least = std::min(least, final_us(task) / task.curve.front().best_us);
  }
  if (drawn.empty()) return "<p class='empty'>No verified measurement yet.</p>\n";
  if (x.log) {
    x.low *= 0.9;
    x.high = std::max(x.high * 1.05, 3 * x.low);
  }
  Chart chart(kWidth, kHeight, x, {std::max(0.0, std::floor(10 * least - 0.5) / 10), 1.0, false});
  chart.axes(trials ? "trials" : "seconds of tuning", "of the final speed", /*y_percent=*/true);
  for (const ReportTask* task : drawn) {
    std::vector<std::pair<double, double>> steps;
    for (const ReportPoint& point : task->curve) {
      const double share = final_us(*task) / point.best_us;
      if (!steps.empty()) steps.emplace_back(at(point, trials), steps.back().second);
      steps.emplace_back(at(point, trials), share);
    }
    steps.emplace_back(x.log ? std::max(task->seconds, steps.back().first)
                             : std::max<double>(task->trials, steps.back().first), 1.0);
    chart.line(steps,
               absl::StrFormat("class='curve' data-task='%d' data-tip='%s' stroke='%s'",
                               task - tasks.data(), tooltip(*task), color_of(task->threads)));
  }
  if (drawn.size() > 1) draw_mean(drawn, x, trials, &chart);
  return chart.svg(trials ? "Best so far against trials" : "Best so far against time");
}

namespace {

struct Roofs {
  std::vector<PeakRoof> peaks;             // lowest first
  std::vector<std::pair<std::string, double>> bandwidths;  // GB/s by level, read
};

Roofs roofs_of(const Report& report, int threads) {
  Roofs roofs;
  for (const PeakRoof& peak : report.peaks)
    if (peak.threads == threads && peak.gflops > 0) roofs.peaks.push_back(peak);
  std::sort(roofs.peaks.begin(), roofs.peaks.end(),
            [](const PeakRoof& a, const PeakRoof& b) { return a.gflops < b.gflops; });
  for (const DoctorReport::Level& level : report.machine->levels) {
    if (level.threads == threads)
      roofs.bandwidths.emplace_back(level.name, std::max(level.read, level.copy));
  }
  return roofs;
}

// Puts each text at the first place beside its point where no other text stands.
class Labels {
 public:
  struct Place {
    const char* anchor;
    double dx, dy;
  };
  explicit Labels(Chart* chart) : chart_(chart) {}

  // Where every place is taken the text is left out, unless it `must` stand: the pointer still
  // tells what a point is.
  void put(double x, double y, const std::string& text, const std::vector<Place>& places,
           bool must) {
    for (const Place& place : places) {
      const Box box = box_of(chart_->px(x) + place.dx, chart_->py(y) + place.dy, text, place);
      const bool last = must && &place == &places.back();
      if (!last && std::any_of(taken_.begin(), taken_.end(),
                               [&](const Box& other) { return meet(box, other); })) {
        continue;
      }
      taken_.push_back(box);
      return chart_->label(x, y, text, place.anchor, place.dx, place.dy);
    }
  }
  void keep_free(double x, double y, double radius) {
    const double px = chart_->px(x), py = chart_->py(y);
    taken_.push_back({px - radius, px + radius, py - radius, py + radius});
  }

 private:
  struct Box {
    double left, right, top, bottom;
  };
  static Box box_of(double x, double y, const std::string& text, const Place& place) {
    constexpr double kLetter = 6.3, kHigh = 9, kDeep = 3;  // pixels of the page's font
    const double width = kLetter * static_cast<double>(text.size());
    const std::string_view anchor = place.anchor;
    const double left = anchor == "start" ? x : anchor == "end" ? x - width : x - width / 2;
    return {left, left + width, y - kHigh, y + kDeep};
  }
  static bool meet(const Box& a, const Box& b) {
    return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  }

  Chart* chart_;
  std::vector<Box> taken_;
};

// The slopes of the memories up to the highest peak; from the steepest of them each peak.
void draw_roofs(const Roofs& roofs, int threads, const Scale& x, Chart* chart, Labels* labels) {
  if (roofs.peaks.empty()) return;
  const std::string stroke = absl::StrFormat("class='roof' stroke='%s'", color_of(threads));
  const double top = roofs.peaks.back().gflops;
  double steepest = 0, shallowest = 1e9;
  int level_number = 0;
  for (const auto& [name, gbytes] : roofs.bandwidths) {
    if (gbytes <= 0) continue;
    const double ridge = top / gbytes;
    steepest = std::max(steepest, gbytes);
    shallowest = std::min(shallowest, gbytes);
    chart->line({{x.low, x.low * gbytes}, {ridge, top}}, stroke);
    // Names stand along the roof, each a little further in, so that near roofs do not collide.
    const double label_at =
        x.low * std::pow(std::max(ridge / x.low, 1.01), 0.12 + 0.16 * level_number++);
    labels->put(label_at, label_at * gbytes, name, {{"end", -3, -4}, {"start", 6, 12}}, true);
  }
  for (const PeakRoof& peak : roofs.peaks) {
    const double from = steepest > 0 ? std::max(x.low, peak.gflops / steepest) : x.low;
    chart->line({{from, peak.gflops}, {x.high, peak.gflops}}, stroke);
    // Where the slowest memory has reached the roof; points that compute lie further right.
    const double free_from = std::clamp(peak.gflops / shallowest, x.low, x.high);
    const double end = chart->px(x.high) - chart->px(free_from) - 2;
    labels->put(free_from, peak.gflops,
                concat(peak.name, ": ", number(peak.gflops, 3), " GFLOP/s, ", threads,
                       threads == 1 ? " thread" : " threads"),
                {{"start", 4, -6}, {"end", end, -6}, {"start", 4, 14}, {"end", end, 14}}, true);
  }
}

}  // namespace

std::string roofline_chart(const Report& report) {
  Scale x{0.05, 10, true}, y{1, 10, true};
  std::vector<int> counts;
  std::vector<const ReportTask*> drawn;
  for (const ReportTask& task : report.tasks) {
    if (task.best_us <= 0 || task.flops <= 0 || task.time_kind != TimeKind::kMeasured) continue;
    drawn.push_back(&task);
    x.high = std::max(x.high, 2 * task.flops / task.bytes);
    x.low = std::min(x.low, 0.5 * task.flops / task.bytes);
    y.low = std::min(y.low, 0.5 * task.flops / task.best_us / 1e3);
    y.high = std::max(y.high, 2 * task.flops / task.best_us / 1e3);
    if (std::find(counts.begin(), counts.end(), task.threads) == counts.end()) {
      counts.push_back(task.threads);
    }
  }
  if (drawn.empty())
    return "<p class='empty'>No workload that computes has a verified, measured result.</p>\n";
  std::sort(counts.begin(), counts.end());
  if (report.machine) {
    for (const PeakRoof& peak : report.peaks) y.high = std::max(y.high, 1.8 * peak.gflops);
  }
  Chart chart(2 * kWidth, kHeight + 120, x, y);
  chart.axes("useful FLOPs per compulsory byte", "GFLOP/s");
  Labels labels(&chart);
  for (const ReportTask* task : drawn) {
    labels.keep_free(task->flops / task->bytes, task->flops / task->best_us / 1e3, kDot);
  }
  if (report.machine) {
    for (int threads : counts) draw_roofs(roofs_of(report, threads), threads, x, &chart, &labels);
  }
  for (const ReportTask* task : drawn) {
    const double intensity = task->flops / task->bytes, gflops = task->flops / task->best_us / 1e3;
    chart.dot(intensity, gflops, kDot,
              absl::StrFormat("class='point' data-task='%d' data-tip='%s' fill='%s'",
                              task - report.tasks.data(), tooltip(*task), color_of(task->threads)));
    labels.put(intensity, gflops, task->name,
               {{"start", 9, 4}, {"end", -9, 4}, {"middle", 0, 19}, {"middle", 0, -10},
                {"start", 9, 17}, {"end", -9, 17}, {"middle", 0, 32}}, false);
  }
  return chart.svg("Roofline");
}

}  // namespace lw
