// `space`: each sketch, how many schedules it stands for, how many draws are feasible, and samples.
#include "absl/strings/str_format.h"
#include "src/cli/commands.h"

namespace lw {
namespace {

constexpr int kSizePaths = 16;             // whose domain products are averaged
constexpr int kDraws = 50;                 // to see how many are feasible

struct SpaceOptions {
  WorkloadOptions workload;
  Output output;
  uint64_t seed = 1;
  int samples = 1;
};

absl::StatusOr<int> run_space(const SpaceOptions& options) {
  ASSIGN_OR_RETURN(const Task task, options.workload.task());
  const std::vector<Sketch> sketches = make_space(task.start);
  Json list = Json::array();
  Table table{{"sketch", "steps", "decisions", "schedules", "feasible", "sample"}, {},
              {false, true, true, true, true}};
  double total = 0;
  std::string text;
  for (size_t s = 0; s < sketches.size(); ++s) {
    const Sketch& sketch = sketches[s];
    Rng rng = Rng(options.seed).split(s);
    double size = 0;
    for (int i = 0; i < kSizePaths; ++i)
      size += estimate_size(task.start, sketch, rng) / kSizePaths;
    total += size;
    int feasible = 0;
    Json samples = Json::array();
    for (int i = 0; i < kDraws; ++i) {
      const absl::StatusOr<Sample> drawn = sample(task.start, sketch, rng);
      if (!drawn.ok()) continue;
      ++feasible;
      if (static_cast<int>(samples.size()) < options.samples)
        samples.push_back(to_text(drawn->trace));
    }
    const int64_t open = std::count(sketch.open.begin(), sketch.open.end(), true);
    list.push_back({{"name", sketch.name},
                    {"steps", sketch.steps.size()},
                    {"decisions", open},
                    {"size", size},
                    {"draws", kDraws},
                    {"feasible", feasible},
                    {"samples", samples}});
    table.rows.push_back({sketch.name, concat(sketch.steps.size()), concat(open),
                          absl::StrFormat("%.2g", size),
                          percent(static_cast<double>(feasible) / kDraws),
                          samples.empty() ? "" : trace_as_line(samples[0])});
    text += bold(sketch.name) +
            absl::StrFormat(
                "  about %.2g schedules, %d decisions in %d steps, %s of draws feasible\n", size,
                open, sketch.steps.size(), percent(static_cast<double>(feasible) / kDraws));
    for (const Json& one : samples) text += "    " + trace_as_line(one) + "\n";
  }
  text += absl::StrFormat("%d %s, about %.2g schedules\n", sketches.size(),
                          sketches.size() == 1 ? "sketch" : "sketches", total);
  emit(options.output,
       {{"workload", task.workload.source_words}, {"size", total}, {"sketches", list}}, table,
       text);
  return kDone;
}

}  // namespace

Action space_command(CLI::App& app) {
  auto options = std::make_shared<SpaceOptions>();
  add_workload(app, &options->workload);
  add_output(app, &options->output);
  app.add_option("--seed", options->seed, "of the samples")->capture_default_str();
  app.add_option("--samples", options->samples, "to print of each sketch")
      ->check(CLI::Range(0, kDraws))->capture_default_str();
  return [options] { return run_space(*options); };
}

}  // namespace lw
