#include "bench/report.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <iterator>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/base/check.h"
#include "src/expr/language/text.h"

namespace lw {
namespace {

using Json = nlohmann::json;

constexpr double kShortCaseUs = 5;

// A figure per case; cases without it do not count.
using Figure = std::function<std::optional<double>(const CaseResult&)>;

// With `at_most`, smaller is better.
struct Required {
  std::string what;
  double limit = 0;
  bool at_most = false;
};

BarVerdict verdict(const Required& required, double value, std::string worst) {
  const char* sign = required.at_most ? "<=" : ">=";
  return {absl::StrFormat("%s %s %.3g", required.what, sign, required.limit), value,
          required.at_most ? value <= required.limit : value >= required.limit, std::move(worst)};
}

void add_geomean(const Required& required, const std::vector<CaseResult>& results,
                 const Figure& figure, std::vector<BarVerdict>* verdicts) {
  double logs = 0;
  int count = 0;
  for (const CaseResult& r : results) {
    const std::optional<double> value = figure(r);
    if (!value || !(*value > 0)) continue;
    logs += std::log(*value);
    ++count;
  }
  if (required.limit > 0 && count > 0)
    verdicts->push_back(verdict(required, std::exp(logs / count), absl::StrCat(count, " cases")));
}

void add_worst(const Required& required, const std::vector<CaseResult>& results,
               const Figure& figure, std::vector<BarVerdict>* verdicts) {
  std::optional<double> worst;
  std::string name;
  for (const CaseResult& r : results) {
    const std::optional<double> value = figure(r);
    if (!value || (worst && (required.at_most ? *value <= *worst : *value >= *worst))) continue;
    worst = value;
    name = r.name;
  }
  if (required.limit > 0 && worst) verdicts->push_back(verdict(required, *worst, name));
}

std::optional<double> against_best(const CaseResult& r) {
  if (!r.ours || r.peers.empty()) return std::nullopt;
  return r.peers.front().ratio.median;
}

std::optional<double> against_openblas(const CaseResult& r) {
  if (!r.ours) return std::nullopt;
  for (const Measured& peer : r.peers)     // fastest first
    if (peer.name == "openblas") return peer.ratio.median;
  return std::nullopt;
}

std::optional<double> of_bound(const CaseResult& r) {
  if (!r.ours) return std::nullopt;
  return r.ours->ratio.median;
}

bool is_far_from_bound(const CaseResult& r) {
  const std::optional<double> share = of_bound(r);
  return share && (*share < kLeastUnexplained || *share > kMostUnexplained);
}

// "C2D1_b16": the operator "C2D", batch 16.
std::string operator_of(const CaseResult& r) { return r.name.substr(0, 3); }
bool is_batch(const CaseResult& r, const char* batch) {
  const size_t at = r.name.rfind('_');
  return at != std::string::npos && r.name.substr(at + 1) == batch;
}

std::vector<CaseResult> chosen(const std::vector<CaseResult>& results,
                               const std::function<bool(const CaseResult&)>& choose) {
  std::vector<CaseResult> some;
  std::copy_if(results.begin(), results.end(), std::back_inserter(some), choose);
  return some;
}

// By how much two threads beat one, as a share of what the two bounds promise.
std::optional<double> scaling(const CaseResult& two, const std::vector<CaseResult>& all) {
  constexpr double kLeastFlops = 50e6;     // below, waking the second thread counts
  for (const CaseResult& one : all) {
    if (one.threads != 1 || one.row != two.row || one.name != two.name) continue;
    if (!one.ours || !two.ours || two.useful_flops < kLeastFlops) return std::nullopt;
    return two.ours->ratio.median / one.ours->ratio.median;
  }
  return std::nullopt;
}

std::optional<double> number(const Json& json, const char* pointer) {
  const Json::json_pointer at(pointer);
  if (!json.is_object() || !json.contains(at) || !json.at(at).is_number()) return std::nullopt;
  return json.at(at).get<double>();
}

// What the first answer, without a measurement, reaches of the final speed.
std::optional<double> zero_trial_share(const CaseResult& r) {
  const std::optional<double> zero = number(r.tuning, "/zero_trial/time_us");
  const std::optional<double> best = number(r.tuning, "/best/time_us");
  if (!best) return std::nullopt;
  return zero.value_or(0) > 0 ? *best / *zero : 0;  // a wrong answer is none
}

// Seconds until the best so far was within 95 % of the final speed.
std::optional<double> seconds_to_95(const CaseResult& r) {
  const std::optional<double> final_us = number(r.tuning, "/best/time_us");
  if (!final_us || !r.tuning.contains("curve")) return std::nullopt;
  for (const Json& point : r.tuning["curve"])  // [wall_s, trials, best_us]
    if (point.is_array() && point.size() >= 3 && point[2].get<double>() * 0.95 <= *final_us)
      return point[0].get<double>();
  return std::nullopt;
}

}  // namespace

std::vector<BarVerdict> judge_row(const BenchRow& row, const std::vector<CaseResult>& results) {
  std::vector<BarVerdict> verdicts;
  const Bar& bar = row.bar;
  const auto is_short = [](const CaseResult& r) {
    return r.ours && r.ours->time_us.median < kShortCaseUs;
  };
  add_geomean({"geomean over the best peer", bar.geomean_best}, results, against_best, &verdicts);
  add_geomean({"geomean over OpenBLAS", bar.geomean_openblas}, results, against_openblas,
              &verdicts);
  add_geomean({"geomean of the bound", bar.geomean_bound}, results, of_bound, &verdicts);
  add_worst({"each over the best peer", bar.each_best}, results,
            [&](const CaseResult& r) {
              return bar.each_best_short > 0 && is_short(r) ? std::nullopt : against_best(r);
            },
            &verdicts);
  add_worst({"each under 5 us over the best peer", bar.each_best_short}, results,
            [&](const CaseResult& r) { return is_short(r) ? against_best(r) : std::nullopt; },
            &verdicts);
  add_worst({"each of the bound", bar.each_bound}, results, of_bound, &verdicts);
  add_worst({"each of the peak", bar.each_peak}, results,
            [](const CaseResult& r) -> std::optional<double> {
              if (!r.ours) return std::nullopt;
              return r.ours->ratio.median * r.useful_flops / r.peak_gflops / 1e3 / r.bound_us;
            },
            &verdicts);
  const std::vector<CaseResult> light =
      chosen(results, [](const CaseResult& r) { return r.bound_by != "compute"; });
  add_geomean({"not bound by multiply-adds: geomean of the bound", bar.geomean_light_bound}, light,
              of_bound, &verdicts);
  add_worst({"each of them", bar.each_light_bound}, light, of_bound, &verdicts);
  add_geomean({"zero trials: geomean of the final", bar.geomean_zero}, results, zero_trial_share,
              &verdicts);
  add_worst({"zero trials: each of the final", bar.each_zero}, results, zero_trial_share,
            &verdicts);
  add_worst({"time over the baseline's", bar.over_baseline, true}, results,
            [](const CaseResult& r) -> std::optional<double> {
              if (!r.ours || r.over_baseline <= 0) return std::nullopt;
              return r.over_baseline;
            },
            &verdicts);
  if (bar.explained) {
    const std::vector<CaseResult> odd = chosen(results, [](const CaseResult& r) {
      return is_far_from_bound(r) && r.why.empty();
    });
    verdicts.push_back(verdict({"cases far from the bound that do not say why", 0, true},
                               static_cast<double>(odd.size()), odd.empty() ? "" : odd[0].name));
  }
  return verdicts;
}

std::vector<BarVerdict> judge_suite(const std::vector<CaseResult>& results) {
  std::vector<BarVerdict> verdicts;
  for (int threads : {1, 2}) {
    const std::string t = absl::StrCat(", ", threads, threads == 1 ? " thread" : " threads");
    const auto of = [&](Weights weights) {
      return chosen(results, [&](const CaseResult& r) {
        return r.threads == threads && r.weights == weights;
      });
    };
    add_geomean({"weights const: geomean over the best peer" + t, 1.12}, of(Weights::kConst),
                against_best, &verdicts);
    add_geomean({"weights plain: geomean over the best peer" + t, 1.22}, of(Weights::kPlain),
                against_best, &verdicts);
  }
  struct OfBound {
    const char *what, *operators, *batch;
    double geomean, each;
  };
  constexpr OfBound kOfBound[] = {
      {"compute-bound, batch 1", "C1D C2D C3D DIL CBR GMM CAP", "b1", 0.9, 0.78},
      {"compute-bound, batch 16", "C1D C2D C3D DIL CBR GMM CAP", "b16", 0.87, 0.72},
      {"DEP, batch 1", "DEP", "b1", 0.5, 0},
      {"DEP, batch 16", "DEP", "b16", 0.7, 0}};
  for (const OfBound& bar : kOfBound) {
    const std::vector<CaseResult> some = chosen(results, [&](const CaseResult& r) {
      return r.threads == 1 && r.weights == Weights::kConst && is_batch(r, bar.batch) &&
             std::string_view(bar.operators).find(operator_of(r)) != std::string_view::npos;
    });
    add_geomean({absl::StrCat(bar.what, ": geomean of the bound"), bar.geomean}, some, of_bound,
                &verdicts);
    add_worst({absl::StrCat(bar.what, ": each of the bound"), bar.each}, some, of_bound,
              &verdicts);
  }
  add_worst({"two threads over one, of the bounds' ratio", 0.92},
            chosen(results, [](const CaseResult& r) { return r.threads == 2; }),
            [&](const CaseResult& r) { return scaling(r, results); }, &verdicts);
  return verdicts;
}

std::vector<BarVerdict> judge_search(const std::vector<CaseResult>& results) {
  std::vector<BarVerdict> verdicts;
  add_geomean({"zero trials: geomean of the final", 0.85}, results,
              zero_trial_share, &verdicts);
  add_worst({"first answer (compiled, exported): seconds", 0.5, true}, results,
            [](const CaseResult& r) { return number(r.tuning, "/first_answer_s"); }, &verdicts);
  add_geomean({"the same verified and timed: seconds, geomean", 0.5, true}, results,
              [](const CaseResult& r) { return number(r.tuning, "/zero_trial_process_wall_s"); },
              &verdicts);
  add_worst({"tune: MB, all processes, tensors aside", 600, true}, results,
            [](const CaseResult& r) -> std::optional<double> {
              const std::optional<double> peak = number(r.tuning, "/peak_bytes");
              return peak ? std::optional<double>((*peak - r.compulsory_bytes) / 1e6)
                          : std::nullopt;
            },
            &verdicts);
  add_geomean({"seconds to 95 % of the final, geomean", 5, true}, results, seconds_to_95,
              &verdicts);
  return verdicts;
}

absl::StatusOr<std::vector<BarVerdict>> judge_tune(const TunerOptions& options) {
  const BenchCase cube{"512^3", {"matmul", "M=512", "N=512", "K=512"}};
  const std::string database = options.folder + "/tune_row.db";
  const auto forget = [&database] {
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(database + suffix);
  };
  forget();
  ProcessRun timed, watched;
  ASSIGN_OR_RETURN(const Json json, tune(options, cube, 2, database, &timed));
  forget();                                // watching memory costs time: a run of its own
  RETURN_IF_ERROR(tune(options, cube, 2, database, &watched, true).status());
  forget();
  ASSIGN_OR_RETURN(const Program program, load_workload(cube.words));
  double tensors = 0;
  for (int t : arguments(program)) tensors += static_cast<double>(bytes(program.tensors[t]));
  std::vector<BarVerdict> verdicts;
  verdicts.push_back(verdict({"tune 512^3, 200 trials: seconds", 12, true}, timed.wall_s, ""));
  if (const std::optional<double> trials = number(json, "/trials"))
    verdicts.push_back(
        verdict({"tune 512^3: checked candidates a second", 20}, *trials / timed.wall_s, ""));
  verdicts.push_back(verdict({"tune 512^3: MB, all processes, tensors aside", 600, true},
                             (static_cast<double>(watched.peak_bytes) - tensors) / 1e6, ""));
  return verdicts;
}

std::string table_header() {
  return absl::StrFormat("%-22s %2s %10s %8s %10s %8s %7s %7s  %s", "case", "t", "ours us",
                         "GFLOP/s", "best us", "GFLOP/s", "ratio", "bound", "best peer");
}

std::string table_line(const CaseResult& r) {
  const auto time = [](double us) {
    return us > 0 ? absl::StrFormat("%.2f", us) : std::string("-");
  };
  const auto rate = [&r](double us) {
    return us > 0 && r.useful_flops > 0 ? absl::StrFormat("%.1f", r.useful_flops / us / 1e3)
                                        : std::string("-");
  };
  const double ours = r.ours ? r.ours->time_us.median : 0;
  const double best = r.peers.empty() ? 0 : r.peers.front().time_us.median;
  const double of_bound = ours > 0   ? r.ours->ratio.median
                          : best > 0 ? r.bound_us / best : 0;
  std::string line = absl::StrFormat(
      "%-22s %2d %10s %8s %10s %8s %7s %6s  %s", r.name, r.threads, time(ours), rate(ours),
      time(best), rate(best),
      ours > 0 && best > 0 ? absl::StrFormat("%.3f", r.peers[0].ratio.median) : "-",
      of_bound > 0 ? absl::StrFormat("%.1f%%", 100 * of_bound) : "-",
      r.peers.empty() ? ""
                      : absl::StrCat(r.peers[0].name, " ", r.peers[0].mode, " ",
                                     r.peers[0].implementation));
  const bool said = is_far_from_bound(r) || (of_bound > 0 && of_bound < kSaidBelow);
  if (!r.why.empty() && said) absl::StrAppend(&line, "\n    ", r.why);
  for (const std::string& wrong : r.wrong) absl::StrAppend(&line, "\n    WRONG ", wrong);
  return line;
}

std::string to_text(const BarVerdict& v) {
  return absl::StrFormat("  %-6s %-52s %8.3f  %s", v.met ? "met" : "MISSED", v.bar, v.value,
                         v.worst);
}

Json to_json(const BarVerdict& v) {
  return {{"bar", v.bar}, {"value", v.value}, {"met", v.met}, {"worst", v.worst}};
}

}  // namespace lw
