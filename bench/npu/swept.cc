// Small layers whose whole space can be simulated: what a search finds, and what is chosen with
// nothing measured, beside the best that there is. For each layer:
//   schedules  all feasible decisions of the space
//   programs   different ones among them, each of which is timed
//   best       cycles of the fastest
//   tuned      cycles of the best of a search, by the best
//   untuned    cycles of the analytic model's first, by the best
//   median     cycles of half of the schedules, by the best
//   near       of 1,000 schedules, those within 5 % of the best
//   of 100     cycles that the best of 100 uniform draws has on average, by the best
// Deterministic: times are computed. Exits 1 if a tuned layer is more than 3 % behind the best, or
// an untuned one more than 25 %.
//   lw_npu_swept [--trials=N]
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "bench/npu/timed.h"
#include "schedules/steps.h"

namespace lw {
namespace {

constexpr double kMostTuned = 1.03, kMostUntuned = 1.25;
constexpr int kDraws = 100;

struct Case {
  const char* target;
  Layer layer;
};
constexpr Case kCases[] = {
    {"npu_edge16", {"bert scores", 128, 128, 64}},  {"npu_edge16", {"bert values", 128, 64, 128}},
    {"npu_mid32", {"bert scores", 128, 128, 64}},   {"npu_mid32", {"bert values", 128, 64, 128}},
    {"npu_mid32", {"c5 of 4 rows", 4, 512, 512}},   {"npu_mid32", {"c2 of 14x14", 196, 64, 64}},
    {"npu_big128", {"bert scores", 128, 128, 64}},  {"npu_big128", {"c3 out", 784, 512, 128}},
    {"npu_big128", {"c4 in", 784, 256, 512}},
};

// All schedules of a task, by several threads: each takes one of the first step's decisions after
// the other.
class Sweep {
 public:
  explicit Sweep(const Task& task) : task_(task) {
    for (const Sketch& sketch : make_space(task.start())) {
      for (Rooted& one : rooted(sketch)) roots_.push_back(std::move(one));
    }
  }

  void run() {
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t) {
      threads.emplace_back([this] {
        for (size_t at; (at = next_++) < roots_.size();) {
          visit(roots_[at].sketch, roots_[at].step, roots_[at].nest);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::sort(times_.begin(), times_.end());
  }

  size_t programs() const { return known_.size(); }
  const std::vector<double>& times() const { return times_; }  // of schedules, ascending

 private:
  struct Rooted {
    Sketch sketch;
    size_t step;
    Nest nest;
  };

  // The nest after the first open step, for each decision that it has.
  std::vector<Rooted> rooted(const Sketch& sketch) const {
    Nest nest = task_.start();
    size_t s = 0;
    for (; s < sketch.steps.size() && !sketch.open[s]; ++s) {
      CHECK(apply(nest, sketch.steps[s]).ok());
    }
    std::vector<Rooted> all;
    each(sketch, s, nest, [&](const Nest& next) { all.push_back({sketch, s + 1, next}); });
    return all;
  }

  // What step `s` makes of the nest, by each of its decisions that is feasible.
  template <class Then>
  static void each(const Sketch& sketch, size_t s, const Nest& nest, const Then& then) {
    Step step = sketch.steps[s];
    std::vector<Decision> domain = {step.numbers};
    if (sketch.open[s]) domain = step.kind->domain(nest, step);
    for (const Decision& numbers : domain) {
      step.numbers = numbers;
      Nest next = nest;
      if (apply(next, step).ok()) then(next);
    }
  }

  void visit(const Sketch& sketch, size_t s, const Nest& nest) {
    if (s == sketch.steps.size()) return time(nest);
    each(sketch, s, nest, [&](const Nest& next) { visit(sketch, s + 1, next); });
  }

  void time(const Nest& nest) {
    const absl::StatusOr<Kernel> kernel = lower(nest);
    if (!kernel.ok()) return;
    const uint64_t key = hash(*kernel);
    double us = -1;
    {
      const std::lock_guard lock(mutex_);
      const auto it = known_.find(key);
      if (it != known_.end()) us = it->second;
    }
    if (us < 0) us = us_of(task_, *kernel);
    const std::lock_guard lock(mutex_);
    known_[key] = us;
    if (us > 0) times_.push_back(us);
  }

  const Task& task_;
  std::vector<Rooted> roots_;
  std::atomic<size_t> next_ = 0;
  std::mutex mutex_;
  std::unordered_map<uint64_t, double> known_;  // by the kernel's hash
  std::vector<double> times_;
};

// The least of so many draws, on average; times ascend.
double expected_best(const std::vector<double>& times, int draws) {
  const double n = static_cast<double>(times.size());
  double sum = 0, above = 1;               // probability that all draws are above
  for (size_t i = 0; i < times.size(); ++i) {
    const double next = std::pow(1 - static_cast<double>(i + 1) / n, draws);
    sum += (above - next) * times[i];
    above = next;
  }
  return sum;
}

absl::StatusOr<bool> run(int trials) {
  std::printf("%-11s %-12s %5s %5s %5s %9s %9s %9s %7s %8s %7s %6s %7s\n", "target", "layer", "M",
              "N", "K", "schedules", "programs", "best", "tuned", "untuned", "median", "near",
              "of 100");
  Means tuned, untuned;
  bool met = true;
  for (const Case& one : kCases) {
    const Layer& layer = one.layer;
    ASSIGN_OR_RETURN(const std::shared_ptr<const Target> target, load_target(one.target));
    ASSIGN_OR_RETURN(const Task task, make_layer(text_of(layer), layer.name, target));
    ASSIGN_OR_RETURN(const TuneResult result, search(task, trials));
    Sweep sweep(task);
    sweep.run();
    const std::vector<double>& times = sweep.times();
    if (times.empty()) return absl::NotFoundError("no schedule has a program");
    const double best = times.front(), by_search = result.best.measurement.time_us / best,
                 by_model = result.zero_us / best;
    const auto near = std::upper_bound(times.begin(), times.end(), 1.05 * best) - times.begin();
    met = met && by_search <= kMostTuned && by_model <= kMostUntuned;
    tuned.add(by_search);
    untuned.add(by_model);
    std::printf("%-11s %-12s %5d %5d %5d %9zu %9zu %9.0f %7.3f %8.3f %7.3f %6.1f %7.3f\n",
                one.target, layer.name, layer.m, layer.n, layer.k, times.size(), sweep.programs(),
                cycles_of(task, best), by_search, by_model, times[times.size() / 2] / best,
                1e3 * static_cast<double>(near) / static_cast<double>(times.size()),
                expected_best(times, kDraws) / best);
    std::fflush(stdout);
  }
  std::printf("geometric means: tuned %.3f, untuned %.3f of the best; %.2f and %.2f are aimed at\n",
              tuned.mean(), untuned.mean(), kMostTuned, kMostUntuned);
  return met;
}

}  // namespace
}  // namespace lw

int main(int argc, char** argv) {
  int trials = 200;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.rfind("--trials=", 0) == 0) trials = std::atoi(word.c_str() + 9);
  }
  const absl::StatusOr<bool> met = lw::run(trials);
  if (!met.ok()) {
    std::fprintf(stderr, "%s\n", std::string(met.status().message()).c_str());
    return 2;
  }
  return *met ? 0 : 1;
}
