// Switches the parts of the search off, one at a time, on this machine:
//   lw_ablation [--cases 'matmul M=.. N=..,conv2d ..'] [--seeds 5] [--seconds S] [--svg FILE] ...
// Runs are appended to --log, and what is there is not run again: the same command, as often as
// time allows, completes the table. Seeds are outermost, so that a part of it compares fairly. In
// the end all that was ever the best of a run is timed side by side.
#include <algorithm>
#include <iostream>
#include <limits>
#include <map>

#include "CLI/CLI.hpp"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "bench/ablation.h"
#include "src/api/run/tune_task.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/files.h"
#include "src/base/message.h"
#include "src/lower/lower.h"
#include "src/measure/local.h"
#include "src/peers/interleave.h"

namespace lw {
namespace {

struct Options {
  std::vector<std::string> cases = {"matmul M=192 N=224 K=320",
                                    "conv2d N=1 H=110 W=110 CI=3 CO=48 R=5 S=5 stride=2 pad=2",
                                    "conv2d_depthwise N=1 H=40 W=40 C=96"};
  int seeds = 5, trials = 64, threads = 1;
  double seconds = 1e9, run_seconds = 20;
  std::string log = "build/ablation.jsonl", svg;
};

// A shape next to it, whose best is what a warm start finds.
std::string neighbour_of(const std::string& words) {
  std::string out;
  for (const std::string& word : std::vector<std::string>(absl::StrSplit(words, ' '))) {
    const size_t equals = word.find('=');
    const int64_t value = equals == std::string::npos ? 0 : std::atoll(word.c_str() + equals + 1);
    out += out.empty() ? "" : " ";
    out += value < 20 ? word : concat(word.substr(0, equals + 1), value + value / 4);
  }
  return out;
}

absl::StatusOr<Task> task_from(const std::string& words, int threads) {
  TaskOptions options;
  options.threads = threads;
  return make_task(absl::StrSplit(words, ' '), options);
}

class Ablation {
 public:
  explicit Ablation(const Options& options) : options_(options) {
    const absl::StatusOr<std::string> text = read_file(options.log);
    if (text.ok()) log_ = *text;
    runs_ = parse_runs(log_);
  }

  absl::Status run() {
    for (int seed = 1; seed <= options_.seeds; ++seed) {
      for (const std::string& words : options_.cases) {
        for (const AblationVariant& variant : ablation_variants()) {
          if (now() - began_ > options_.seconds) return absl::OkStatus();
          if (!has(words, variant, seed)) RETURN_IF_ERROR(one(words, variant, seed));
        }
      }
    }
    return absl::OkStatus();
  }

  std::vector<AblationRun> take_runs() { return std::move(runs_); }

 private:
  bool has(const std::string& words, const AblationVariant& variant, int seed) const {
    return std::any_of(runs_.begin(), runs_.end(), [&](const AblationRun& run) {
      return run.workload == words && run.variant == variant.name &&
             run.seed == static_cast<uint64_t>(seed);
    });
  }

  // Tunes a neighbour, once a case, of which every run's store then knows the best.
  absl::StatusOr<const BestRow*> known_best(const std::string& words) {
    if (const auto it = neighbours_.find(words); it != neighbours_.end()) return &it->second;
    ASSIGN_OR_RETURN(const Task task, task_from(neighbour_of(words), options_.threads));
    const std::unique_ptr<Store> store = make_memory_store();
    SearchOptions search;
    search.trials = options_.trials;
    ASSIGN_OR_RETURN(const TuneResult tuned, tune_task(task, *store, search));
    return &(neighbours_[words] = tuned.best);
  }

  absl::Status one(const std::string& words, const AblationVariant& variant, int seed) {
    ASSIGN_OR_RETURN(const BestRow* known, known_best(words));
    ASSIGN_OR_RETURN(const Task task, task_from(words, options_.threads));
    ASSIGN_OR_RETURN(const Task other, task_from(neighbour_of(words), options_.threads));
    const std::unique_ptr<Store> store = make_memory_store();
    RETURN_IF_ERROR(put_task(*store, other));
    RETURN_IF_ERROR(put_task(*store, task));
    std::vector<Measurement> neighbour = {known->measurement};
    RETURN_IF_ERROR(store->append(other.key(), neighbour));
    SearchOptions search;
    search.seed = static_cast<uint64_t>(seed);
    search.trials = options_.trials;
    search.seconds = options_.run_seconds;
    LocalOptions local;
    local.seed = search.seed;
    ASSIGN_OR_RETURN(const std::unique_ptr<Measurer> measurer, make_measurer(task, local));
    TuneHooks hooks;
    const double begin = now();
    hooks.now = [begin] { return now() - begin; };
    ASSIGN_OR_RETURN(AblationRun run,
                     run_ablation(task.start(), task.key(), *store, *measurer, variant,
                                                   search, hooks, words));
    std::cerr << absl::StrFormat("%s  seed %d  %s: %.1f s\n", words, seed, variant.name,
                                 now() - begin);
    log_ += to_line(run);
    runs_.push_back(std::move(run));
    return write_file(options_.log, log_);
  }

  const Options& options_;
  const double began_ = now();
  std::string log_;
  std::vector<AblationRun> runs_;
  std::map<std::string, BestRow> neighbours_;
};

constexpr int kRounds = 9;
constexpr size_t kTogether = 12;

// In groups, each beside the first trace: within a round the host's speed is about the same.
absl::StatusOr<std::vector<double>> time_together(const std::string& words, int threads,
                                                  const std::vector<std::string>& traces) {
  ASSIGN_OR_RETURN(const Task task, task_from(words, threads));
  ASSIGN_OR_RETURN(const std::unique_ptr<Measurer> measurer, make_measurer(task, LocalOptions()));
  std::vector<Candidate> candidates;
  for (const std::string& text : traces) {
    ASSIGN_OR_RETURN(const Trace trace, parse_trace(text));
    ASSIGN_OR_RETURN(const Nest nest, replay(task.start(), trace));
    ASSIGN_OR_RETURN(Kernel kernel, lower(nest));
    Candidate candidate;
    candidate.ticket = static_cast<int64_t>(candidates.size());
    candidate.kernel = std::make_shared<const Kernel>(std::move(kernel));
    candidate.effort = 2;
    candidates.push_back(std::move(candidate));
  }
  std::vector<double> times(traces.size(), std::numeric_limits<double>::infinity());
  double first_us = 0;
  for (size_t begin = 0; begin < candidates.size(); begin += kTogether) {
    const size_t end = std::min(begin + kTogether, candidates.size());
    std::vector<Candidate> group(candidates.begin() + begin, candidates.begin() + end);
    if (begin > 0) group.insert(group.begin(), candidates.front());
    const std::vector<Outcome> outcomes = measurer->interleave(group, kRounds);
    if (outcomes[0].verdict != Verdict::kOk) return absl::InternalError(outcomes[0].detail);
    if (begin == 0) first_us = outcomes[0].time_us;
    for (size_t i = 0; i < group.size(); ++i) {
      const std::vector<double>& samples = outcomes[i].samples_us;
      if (outcomes[i].verdict != Verdict::kOk || samples.size() != outcomes[0].samples_us.size())
        continue;
      times[static_cast<size_t>(group[i].ticket)] =
          first_us * paired_ratio(samples, outcomes[0].samples_us).median;
    }
  }
  return times;
}

void print_rows(const std::vector<AblationRow>& rows) {
  for (const AblationRow& row : rows) {
    const Quartiles &s = row.seconds, &t = row.trials;
    std::cout << absl::StrFormat(
        "%-18s %.0f %%: %2d of %2d runs  seconds %6.2f [%.2f, %.2f]  trials %5.0f [%.0f, %.0f]  "
        "final %.1f %%\n",
        row.variant, 100 * row.share, row.reached, row.runs, s.median, s.low, s.high, t.median,
        t.low, t.high, 100 * row.final_share);
  }
}

absl::Status run(const Options& options) {
  Ablation ablation(options);
  RETURN_IF_ERROR(ablation.run());
  std::vector<AblationRun> runs = ablation.take_runs();
  RETURN_IF_ERROR(time_again(runs, [&](const std::string& words,
                                       const std::vector<std::string>& traces) {
    return time_together(words, options.threads, traces);
  }));
  for (double share : {0.9, 0.95, 0.99}) print_rows(ablation_rows(runs, share));
  if (options.svg.empty()) return absl::OkStatus();
  return write_file(options.svg,
                    ablation_svg(ablation_rows(runs, 0.95),
                                 "To 95 % of the best known: median and quartiles"));
}

}  // namespace
}  // namespace lw

int main(int argc, char** argv) {
  lw::Options options;
  CLI::App app{"what each part of the search is worth"};
  app.add_option("--cases", options.cases, "workloads, with commas between them")->delimiter(',');
  app.add_option("--seeds", options.seeds, "of each variant")->capture_default_str();
  app.add_option("--trials", options.trials, "a run")->capture_default_str();
  app.add_option("--threads", options.threads, "of the kernels")->capture_default_str();
  app.add_option("--seconds", options.seconds, "after which no run begins");
  app.add_option("--run-seconds", options.run_seconds, "a run")->capture_default_str();
  app.add_option("--log", options.log, "runs, added to")->capture_default_str();
  app.add_option("--svg", options.svg, "picture to draw");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = lw::run(options);
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
