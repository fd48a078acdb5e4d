// How many candidates a second one core replays and scores: with the draft model alone, and with
// all features and a trained XGBoost model. Prints the figures beside the project's bars.
//   lw_throughput [--target NAME] [WORKLOAD...]
#include <cstdio>

#include "cost_model/cost_model.h"
#include "cost_model/trees/learned.h"
#include "schedules/steps.h"
#include "schedules/targets/target.h"
#include "src/base/clock.h"
#include "src/base/rng.h"
#include "src/expr/expr.h"
#include "src/expr/language/text.h"

namespace lw {
namespace {

// Distinct traces of all sketches, drawn beforehand: drawing is not what is timed.
std::vector<Trace> draw(const Nest& start, int count) {
  const std::vector<Sketch> space = make_space(start);
  std::vector<Trace> traces;
  Rng rng(1);
  for (int i = 0; i < 20 * count && static_cast<int>(traces.size()) < count; ++i) {
    absl::StatusOr<Sample> drawn = sample(start, space[i % space.size()], rng);
    if (drawn.ok()) traces.push_back(std::move(drawn->trace));
  }
  return traces;
}

bool line(const char* what, double rate, double bar) {
  std::printf("%-44s %9.0f/s   bar %6.0f/s   %s\n", what, rate, bar,
              rate >= bar ? "met" : "missed");
  return rate >= bar;
}

int run(const std::string& name, const std::vector<std::string>& words) {
  absl::StatusOr<Program> program = load_workload(words);
  absl::StatusOr<Target> target = find_target(name);
  if (!program.ok() || !target.ok()) {
    std::fprintf(
        stderr, "%s\n",
        std::string((program.ok() ? target.status() : program.status()).message()).c_str());
    return 1;
  }
  const Nest start = make_nest(std::make_shared<const Program>(*std::move(program)),
                               std::make_shared<const Target>(*std::move(target)), 1);
  const std::vector<Trace> traces = draw(start, 5000);
  double sum = 0, begin = now();
  for (const Trace& trace : traces) sum += draft_us(*replay(start, trace));
  bool met = line("replayed and draft-scored", traces.size() / (now() - begin), 20000);

  std::vector<Example> examples;
  for (size_t i = 0; i < 200 && i < traces.size(); ++i) {
    const Nest nest = *replay(start, traces[i]);
    examples.push_back({features(nest), 1, draft_us(nest), false});
  }
  const std::unique_ptr<Model> model = make_xgboost_model();
  if (!model->fit(examples, 1).ok()) return 1;
  begin = now();
  std::vector<std::vector<float>> rows;
  for (const Trace& trace : traces) rows.push_back(features(*replay(start, trace)));
  sum += model->score(rows)[0];
  met = line("replayed, all features, scored by XGBoost", traces.size() / (now() - begin), 5000) &&
        met;
  return met && sum == sum ? 0 : 1;
}

}  // namespace
}  // namespace lw

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  std::string target = "host";
  if (words.size() > 1 && words[0] == "--target") {
    target = words[1];
    words.erase(words.begin(), words.begin() + 2);
  }
  if (words.empty()) words = {"matmul"};
  return lw::run(target, words);
}
