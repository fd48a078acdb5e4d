// Problem: fractions of a few per cent decide the bars, on hosts whose clock drifts by more, and
// some of which run at one of two speeds, changing within a second. So for each case everything
// runs in one interleaved session on the same arguments: our kernel, every way of every peer, and
// the peak and the bandwidth that they are judged by. What is judged are the medians of the ratios
// within a round. Results are compared with the reference at sampled points before anything is
// timed; a contender that is wrong is named and left out.
#include "bench/compare.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "bench/arguments.h"
#include "bench/plain_loops.h"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/parallel_pool.h"
#include "src/expr/language/text.h"
#include "src/measure/machine/limits.h"
#include "src/peers/interleave.h"
#include "src/peers/judge.h"
#include "src/peers/loader.h"
#include "src/peers/match/match.h"

namespace lw {
namespace {

constexpr double kSettleSeconds = 0.02;    // OpenMP's idle threads spin for some milliseconds
constexpr double kLimitsSeconds = 0.01;    // a round, to measure the peak and as much the bandwidth

nlohmann::json to_json(const Measured& m) {
  return {{"name", m.name},
          {"version", m.version},
          {"mode", m.mode},
          {"implementation", m.implementation},
          {"time_us", m.time_us.median},
          {"ci_us", {m.time_us.low, m.time_us.high}},
          {"ratio", m.ratio.median},
          {"ratio_ci", {m.ratio.low, m.ratio.high}},
          {"max_error", m.max_error}};
}

// Our kernel of another case of the row, on arguments of its own.
struct Baseline {
  HostArguments arguments;
  std::function<void()> run;
};

absl::StatusOr<Baseline> make_baseline(const BenchRow& row, const std::string& name, int threads,
                                       const OurSide& ours) {
  for (const BenchCase& other : row.cases) {
    if (other.name != name) continue;
    ASSIGN_OR_RETURN(const Program program, load_case(other));
    Baseline baseline;
    ASSIGN_OR_RETURN(baseline.arguments, host_arguments(program));
    ASSIGN_OR_RETURN(OurKernel kernel,
                     ours(other, program, baseline.arguments.pointers.data(), threads));
    baseline.run = std::move(kernel.run);
    return baseline;
  }
  return absl::NotFoundError(absl::StrCat("no case ", name, " in row ", row.id));
}

}  // namespace

absl::StatusOr<CaseResult> compare(const BenchRow& row, const BenchCase& bench_case, int threads,
                                   const OurSide& ours, const CompareOptions& options) {
  ASSIGN_OR_RETURN(const Program program, load_case(bench_case));
  ASSIGN_OR_RETURN(const HostArguments arguments, host_arguments(program));
  CaseResult result;
  result.row = row.id;
  result.name = bench_case.name;
  result.why = bench_case.why;
  result.threads = threads;
  result.weights = row.weights;
  const Work work = count_work(program);
  result.useful_flops = work.flops.useful;
  result.compulsory_bytes = work.bytes_read + work.bytes_written;

  std::vector<Measured> entries;
  std::vector<Contender> contenders;
  const Judge judge(program, arguments.pointers.data(), options.points);
  const auto enter = [&](Measured entry, Contender contender) {
    const Check check = judge.run(contender);
    entry.max_error = check.worst;
    if (!check.ok) {
      result.wrong.push_back(absl::StrCat(contender.name, ": ", check.detail));
      return false;
    }
    entries.push_back(std::move(entry));
    contenders.push_back(std::move(contender));
    return true;
  };
  if (ours) {
    ASSIGN_OR_RETURN(OurKernel kernel,
                     ours(bench_case, program, arguments.pointers.data(), threads));
    result.tuning = kernel.tuning;
    if (!enter({"loopwright", "", "", kernel.implementation, {}}, {"loopwright", kernel.run, {}}))
      return absl::InternalError(result.wrong.back());
  }
  Baseline baseline;
  if (ours && !bench_case.baseline.empty()) {
    ASSIGN_OR_RETURN(baseline, make_baseline(row, bench_case.baseline, threads, ours));
  }
  std::vector<int> cpus = options.cpus;
  cpus.resize(std::min(cpus.size(), static_cast<size_t>(threads)));
  pin_to({cpus.front()});
  for (PeerContender& peer :
       prepare_peers(match_peer_case(program), arguments.pointers.data(), threads, cpus))
    enter({peer.name, peer.version, peer.mode, peer.implementation, {}},
          {absl::StrCat(peer.name, " ", peer.mode), peer.run, peer.select});
  if (!bench_case.plain.empty() && threads == 1) {
    ASSIGN_OR_RETURN(const std::vector<PlainContender> loops,
                     plain_contenders(bench_case.plain, bench_case.words, options.folder,
                                      arguments.pointers.data()));
    for (const PlainContender& one : loops)
      enter({one.compiler, "", "loops", one.order, {}},
            {absl::StrCat(one.compiler, " ", one.order), one.run, {}});
  }
  if (!bench_case.arrays.empty() && threads == 1) {
    for (const std::string& library : options.libraries) {
      const absl::StatusOr<ArrayLibraryContender> peer = array_library(
          library, bench_case.arrays, program, arguments.pointers.data(), options.arrays);
      if (peer.ok()) enter({library, peer->version, "", "", {}}, peer->contender);
      else result.wrong.push_back(std::string(peer.status().message()));
    }
  }
  if (baseline.run) contenders.push_back({"baseline", baseline.run, {}});

  ASSIGN_OR_RETURN(const Target target, find_target(options.target));
  std::vector<double> peaks, bandwidths, bounds;
  std::map<std::string, int> set_by;       // rounds
  absl::Status limits_status;
  InterleaveOptions interleave_options;
  interleave_options.budget_s = options.budget_s;
  interleave_options.settle_s = threads > 1 ? kSettleSeconds : 0;
  interleave_options.beside = [&] {
    pin_to(cpus);                          // not only the first, where this thread stands
    const absl::StatusOr<Limits> limits = measure_limits(program, work, target, threads,
                                                         kLimitsSeconds);
    pin_to({cpus.front()});
    if (!limits.ok()) {
      limits_status = limits.status();
      return;
    }
    peaks.push_back(limits->peak_gflops);
    bandwidths.push_back(limits->bandwidth_gbytes);
    const Bound bound = find_bound(work, target, *limits);
    bounds.push_back(bound.bound_us);
    ++set_by[bound.set_by().name];
  };
  const std::vector<Series> series = interleave(contenders, interleave_options);
  pin_to(options.cpus);
  RETURN_IF_ERROR(limits_status);

  result.peak_gflops = estimate(peaks).median;
  result.bandwidth_gbytes = estimate(bandwidths).median;
  result.bound_us = estimate(bounds).median;
  for (const auto& [name, rounds] : set_by)
    if (result.bound_by.empty() || rounds > set_by[result.bound_by]) result.bound_by = name;
  if (baseline.run) {
    result.over_baseline =
        paired_ratio(series.front().samples_us, series.back().samples_us).median;
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    Measured& entry = entries[i];
    entry.time_us = series[i].time_us;
    if (ours && i == 0) {
      entry.ratio = paired_ratio(bounds, series[i].samples_us);
      result.ours = entry;
    } else {
      if (ours) entry.ratio = paired_ratio(series[i].samples_us, series.front().samples_us);
      result.peers.push_back(entry);
    }
  }
  std::sort(result.peers.begin(), result.peers.end(), [](const Measured& a, const Measured& b) {
    return std::pair(a.ratio.median, a.time_us.median) <
           std::pair(b.ratio.median, b.time_us.median);
  });
  return result;
}

nlohmann::json to_json(const CaseResult& r) {
  nlohmann::json json = {{"row", r.row},
                         {"name", r.name},
                         {"threads", r.threads},
                         {"weights", r.weights == Weights::kConst   ? "const"
                                     : r.weights == Weights::kPlain ? "plain"
                                                                    : ""},
                         {"useful_flops", r.useful_flops},
                         {"compulsory_bytes", r.compulsory_bytes},
                         {"peak_gflops", r.peak_gflops},
                         {"bandwidth_gbytes_per_s", r.bandwidth_gbytes},
                         {"bound_us", r.bound_us},
                         {"bound_by", r.bound_by},
                         {"wrong", r.wrong},
                         {"peers", nlohmann::json::array()}};
  if (r.ours) json["ours"] = to_json(*r.ours);
  if (r.over_baseline > 0) json["over_baseline"] = r.over_baseline;
  for (const Measured& peer : r.peers) json["peers"].push_back(to_json(peer));
  if (!r.tuning.is_null()) json["tuning"] = r.tuning;
  return json;
}

}  // namespace lw
