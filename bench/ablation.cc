#include "bench/ablation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "absl/strings/str_format.h"
#include "cost_model/trees/learned.h"
#include "nlohmann/json.hpp"
#include "schedules/targets/target.h"
#include "src/base/check.h"

namespace lw {
namespace {

using Json = nlohmann::json;

constexpr double kNever = std::numeric_limits<double>::infinity();

using StartModel = absl::StatusOr<std::unique_ptr<Model>>;

StartModel from_draft(std::string_view) { return make_xgboost_model(); }
StartModel from_nothing(std::string_view) {
  Training training;
  training.draft = false;
  return make_xgboost_model(training);
}
StartModel no_model(std::string_view) { return nullptr; }

double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(at), above = std::min(below + 1, sorted.size() - 1);
  const double part = at - static_cast<double>(below);
  if (part == 0 || sorted[below] == sorted[above]) return sorted[below];
  return sorted[below] * (1 - part) + sorted[above] * part;
}

Quartiles quartiles(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {quantile(values, 0.25), quantile(values, 0.5), quantile(values, 0.75)};
}

std::string shown(double value) {
  return std::isfinite(value) ? absl::StrFormat("%.3g", value) : "never";
}

}  // namespace

const std::vector<AblationVariant>& ablation_variants() {
  static const std::vector<AblationVariant> variants = {
      {"warm start", [](SearchOptions&) {}, from_draft, true},
      {"cold start", [](SearchOptions&) {}, from_draft},
      {"shipped model", [](SearchOptions&) {}, shipped_model},
      {"no learned model", [](SearchOptions& o) { o.use_model = false; }, no_model},
      {"no draft", [](SearchOptions& o) { o.use_draft = false; }, from_nothing},
      {"no racing", [](SearchOptions& o) { o.use_racing = false; }, from_draft},
      {"no descent", [](SearchOptions& o) { o.use_descent = false; }, from_draft},
      {"no evolution", [](SearchOptions& o) { o.use_evolution = false; }, from_draft},
      {"random search", [](SearchOptions& o) {
         o.use_draft = false;
         o.random_only = true;
       }, no_model}};
  return variants;
}

absl::StatusOr<AblationRun> run_ablation(const Nest& start, const Key& key, Store& store,
                                         Measurer& measurer, const AblationVariant& variant,
                                         SearchOptions options, const TuneHooks& hooks,
                                         const std::string& workload) {
  options.use_warm = variant.warm;
  variant.change(options);
  ASSIGN_OR_RETURN(std::unique_ptr<Model> model, variant.model(start.target->architecture));
  ASSIGN_OR_RETURN(const TuneResult result,
                   tune(start, key, store, measurer, options, std::move(model), hooks));
  return AblationRun{workload, variant.name, options.seed, result.curve};
}

absl::Status time_again(std::vector<AblationRun>& runs, const Timer& timer) {
  std::map<std::string, std::map<std::string, double>> times;  // by workload, then by trace
  for (const AblationRun& run : runs)
    for (const CurvePoint& point : run.curve) times[run.workload][point.trace] = kNever;
  for (auto& [workload, of] : times) {
    std::vector<std::string> traces;
    for (const auto& [trace, time] : of) traces.push_back(trace);
    ASSIGN_OR_RETURN(const std::vector<double> found, timer(workload, traces));
    for (size_t i = 0; i < traces.size(); ++i) of[traces[i]] = found[i];
  }
  for (AblationRun& run : runs)
    for (CurvePoint& point : run.curve) point.best_us = times[run.workload][point.trace];
  return absl::OkStatus();
}

std::string to_line(const AblationRun& run) {
  Json curve = Json::array();
  for (const CurvePoint& point : run.curve)
    curve.push_back({point.wall_s, point.trials, point.best_us, point.trace});
  return Json{{"workload", run.workload}, {"variant", run.variant}, {"seed", run.seed},
              {"curve", curve}}.dump() + "\n";
}

std::vector<AblationRun> parse_runs(std::string_view text) {
  std::vector<AblationRun> runs;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const Json line = Json::parse(text.substr(0, end), nullptr, /*allow_exceptions=*/false);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.is_object() || !line.contains("curve") || !line["curve"].is_array()) continue;
    AblationRun run;
    run.workload = line.value("workload", "");
    run.variant = line.value("variant", "");
    run.seed = line.value("seed", uint64_t{0});
    for (const Json& point : line["curve"]) {
      if (!point.is_array() || point.size() != 4) continue;
      run.curve.push_back({point[0].get<double>(), point[1].get<int>(), point[2].get<double>(),
                           point[3].get<std::string>()});
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

std::vector<AblationRow> ablation_rows(const std::vector<AblationRun>& runs, double share) {
  std::map<std::string, double> best;
  for (const AblationRun& run : runs) {
    if (run.curve.empty()) continue;
    const auto [it, added] = best.emplace(run.workload, run.curve.back().best_us);
    if (!added) it->second = std::min(it->second, run.curve.back().best_us);
  }
  std::vector<AblationRow> rows;
  for (const AblationVariant& variant : ablation_variants()) {
    AblationRow row;
    row.variant = variant.name;
    row.share = share;
    std::vector<double> seconds, trials;
    double logs = 0;
    for (const AblationRun& run : runs) {
      if (run.variant != variant.name || run.curve.empty()) continue;
      const double aim = best[run.workload] / share;
      const auto point = std::find_if(run.curve.begin(), run.curve.end(),
                                      [&](const CurvePoint& p) { return p.best_us <= aim; });
      const bool reached = point != run.curve.end();
      seconds.push_back(reached ? point->wall_s : kNever);
      trials.push_back(reached ? point->trials : kNever);
      row.reached += reached;
      logs += std::log(best[run.workload] / run.curve.back().best_us);
    }
    if (seconds.empty()) continue;
    row.runs = static_cast<int>(seconds.size());
    row.final_share = std::exp(logs / row.runs);
    row.seconds = quartiles(std::move(seconds));
    row.trials = quartiles(std::move(trials));
    rows.push_back(std::move(row));
  }
  return rows;
}

namespace {

constexpr int kPanel = 300, kNames = 150, kGap = 40, kLine = 24, kTop = 64;

// One panel: a mark a row on a logarithmic scale, arrows where a run never arrived.
void draw_panel(const std::vector<AblationRow>& rows, Quartiles AblationRow::*values, int left,
                const std::string& name, std::string& svg) {
  double low = kNever, high = 0;
  for (const AblationRow& row : rows) {
    const Quartiles& q = row.*values;
    for (double value : {q.low, q.median, q.high}) {
      if (!std::isfinite(value)) continue;
      low = std::min(low, std::max(value, 0.1));
      high = std::max(high, value);
    }
  }
  if (!(low < kNever)) return;
  high = std::max(high * 1.1, low * 2);
  low /= 1.1;
  const auto x = [&](double value) {
    if (!std::isfinite(value)) return static_cast<double>(left + kPanel);
    return left + kPanel * std::clamp(std::log(value / low) / std::log(high / low), 0.0, 1.0);
  };
  const int bottom = kTop + kLine * static_cast<int>(rows.size());
  svg += absl::StrFormat("<text x='%d' y='%d' class='t'>%s</text>", left, kTop - 16, name);
  for (double power = 1e-1; power < high; power *= 10) {
    for (double tick : {power, 2 * power, 5 * power}) {
      if (tick < low || tick > high) continue;
      svg += absl::StrFormat("<line x1='%.1f' x2='%.1f' y1='%d' y2='%d' class='g'/>", x(tick),
                             x(tick), kTop - 8, bottom);
      svg += absl::StrFormat("<text x='%.1f' y='%d' class='n'>%g</text>", x(tick), bottom + 14,
                             tick);
    }
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    const Quartiles& q = rows[i].*values;
    const double y = kTop + kLine * (static_cast<double>(i) + 0.5);
    svg += absl::StrFormat("<line x1='%.1f' x2='%.1f' y1='%.1f' y2='%.1f' class='q'/>", x(q.low),
                           x(q.high), y, y);
    svg += absl::StrFormat("<circle cx='%.1f' cy='%.1f' r='4.5' class='m'/>", x(q.median), y);
    svg += absl::StrFormat("<text x='%.1f' y='%.1f' class='v'>%s</text>", x(q.median) + 8, y - 5,
                           shown(q.median));
  }
}

}  // namespace

std::string ablation_svg(const std::vector<AblationRow>& rows, const std::string& title) {
  const int width = kNames + 2 * kPanel + 2 * kGap,
            height = kTop + kLine * static_cast<int>(rows.size()) + 28;
  std::string svg = absl::StrFormat(
      "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' font-family='sans-serif'>"
      "<style>.t{font-size:13px;font-weight:bold}.n{font-size:10px;fill:#666;text-anchor:middle}"
      ".v{font-size:10px;fill:#333}.r{font-size:12px;text-anchor:end}.g{stroke:#ddd}"
      ".q{stroke:#7aa6d8;stroke-width:6;stroke-linecap:round}.m{fill:#1f5fa8}</style>"
      "<rect width='100%%' height='100%%' fill='#fff'/>"
      "<text x='12' y='22' class='t'>%s</text>", width, height, title);
  for (size_t i = 0; i < rows.size(); ++i) {
    svg += absl::StrFormat("<text x='%d' y='%.1f' class='r'>%s</text>", kNames - 10,
                           kTop + kLine * (static_cast<double>(i) + 0.5) + 4, rows[i].variant);
  }
  draw_panel(rows, &AblationRow::seconds, kNames, "seconds", svg);
  draw_panel(rows, &AblationRow::trials, kNames + kPanel + kGap, "trials", svg);
  return svg + "</svg>\n";
}

}  // namespace lw
