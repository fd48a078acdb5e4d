// Tuned products on the simulated NPU beside what one has without a search: ResNet-50's convolutions
// as products of their windows, and BERT-base's products, i8 into i32. For each layer, in cycles:
//   default   the largest tile of which the memories have two slots, sums innermost, weights
//             stationary: what one would write
//   random    the best of 100 draws from the space
//   untuned   the first of the analytic model, nothing measured
//   tuned     the best of a search
//   bound     multipliers and compulsory bytes, whichever takes longer
//   busy      of the time the share that the busiest engine needs for what the program makes it do
//             and move: how well engines overlap
//   ms        of a trial: all of the search's time by its trials
// Deterministic: times are computed. Exits 1 if a tuned layer is behind a default or a draw.
//   lw_npu_tuned [TARGET...] [--trials=N]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/npu/timed.h"
#include "loopwright/bounds.h"
#include "nlohmann/json.hpp"
#include "schedules/steps.h"
#include "src/base/rng.h"

namespace lw {
namespace {

constexpr int kDraws = 100;

// The default: of the tiles that fit twice the one with the most products, the squarest of equals.
double default_us(const Task& task) {
  const Sketch sketch = make_space(task.start()).front();
  Step tile = sketch.steps[0], order = sketch.steps[1], stream = sketch.steps[2];
  double most = 0;
  Nest best;
  for (const Decision& numbers : tile.kind->domain(task.start(), tile)) {
    Nest nest = task.start();
    tile.numbers = numbers;
    order.numbers = {0};
    stream.numbers = {0, 2, 2, 2, 0};
    const double products = static_cast<double>(numbers[0] * numbers[3]) *
                            static_cast<double>(numbers[1] * numbers[2]);
    if (products <= most || !apply(nest, tile).ok() || !apply(nest, order).ok() ||
        !apply(nest, stream).ok()) {
      continue;
    }
    most = products;
    best = std::move(nest);
  }
  return most > 0 ? us_of(task, best) : 0;
}

double random_us(const Task& task) {
  const std::vector<Sketch> space = make_space(task.start());
  Rng rng(1);
  double best = 0;
  for (int i = 0; i < kDraws; ++i) {
    const absl::StatusOr<Sample> drawn = sample(task.start(), space[rng.below(space.size())], rng);
    const double us = drawn.ok() ? us_of(task, drawn->nest) : 0;
    if (us > 0 && (best == 0 || us < best)) best = us;
  }
  return best;
}

double busy_share(const Measurement& m) {
  return nlohmann::json::parse(m.environment)["counters"]["efficiency"].get<double>();
}

absl::StatusOr<bool> run(const std::string& name, int trials) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const Target> target, load_target(name));
  std::printf("%s, %d trials\n%-12s %5s %5s %5s %10s %10s %10s %10s %10s %6s %6s %6s %6s\n",
              name.c_str(), trials, "layer", "M", "N", "K", "default", "random", "untuned", "tuned",
              "bound", "gain", "of it", "busy", "ms");
  Means gain, most, untuned, efficiency, busy;
  bool behind = false;
  double seconds = 0;
  std::vector<Layer> layers(std::begin(kResNet), std::end(kResNet));
  layers.insert(layers.end(), std::begin(kBert), std::end(kBert));
  for (const Layer& layer : layers) {
    ASSIGN_OR_RETURN(const Task task, make_layer(text_of(layer), layer.name, target));
    ASSIGN_OR_RETURN(const TuneResult result, search(task, trials));
    ASSIGN_OR_RETURN(const Bound bound, measure_bound(task));
    const double tuned = result.best.measurement.time_us;
    const double plain = default_us(task), random = random_us(task);
    const double other = plain == 0 ? random : std::min(plain, random);
    behind = behind || tuned > other;
    gain.add(other / tuned);
    most.add(other / bound.bound_us);
    untuned.add(tuned / result.zero_us);
    efficiency.add(bound.bound_us / tuned);
    const double share = busy_share(result.best.measurement);
    busy.add(share);
    seconds = std::max(seconds, result.wall_s);
    const auto cycles = [&](double us) { return cycles_of(task, us); };
    std::printf("%-12s %5d %5d %5d %10.0f %10.0f %10.0f %10.0f %10.0f %6.2f %6.2f %6.2f %6.1f\n",
                layer.name, layer.m, layer.n, layer.k, cycles(plain), cycles(random),
                cycles(result.zero_us), cycles(tuned), cycles(bound.bound_us), other / tuned,
                bound.bound_us / tuned, share, 1e3 * result.wall_s / std::max(1, result.trials));
    std::fflush(stdout);
  }
  std::printf("geometric means: gain %.3f (of what is at the bound %.3f), tuned / untuned %.3f, of "
              "the bound %.3f, busy %.3f; longest %.1f s\n\n",
              gain.mean(), most.mean(), untuned.mean(), efficiency.mean(), busy.mean(), seconds);
  return !behind;
}

}  // namespace
}  // namespace lw

int main(int argc, char** argv) {
  std::vector<std::string> targets;
  int trials = 200;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.rfind("--trials=", 0) == 0) trials = std::atoi(word.c_str() + 9);
    else targets.push_back(word);
  }
  if (targets.empty()) targets = {"npu_edge16", "npu_mid32", "npu_big128"};
  bool ahead = true;
  for (const std::string& target : targets) {
    const absl::StatusOr<bool> result = lw::run(target, trials);
    if (!result.ok()) {
      std::fprintf(stderr, "%s: %s\n", target.c_str(), std::string(result.status().message()).c_str());
      return 2;
    }
    ahead = ahead && *result;
  }
  return ahead ? 0 : 1;
}
