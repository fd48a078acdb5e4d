// `space`: each sketch, how many schedules it stands for, how many draws are feasible, and samples;
// with --why what the rules could not do.
#include <algorithm>
#include <map>

#include "absl/strings/str_format.h"
#include "schedules/steps.h"
#include "src/api/task.h"
#include "src/base/rng.h"
#include "src/cli/commands.h"
#include "src/lower/lower.h"

namespace lw {
namespace {

constexpr int kSizePaths = 16;             // whose domain products are averaged
constexpr int kDraws = 50;                 // to see how many are feasible

struct SpaceOptions {
  WorkloadOptions workload;
  Output output;
  uint64_t seed = 1;
  int samples = 1;
  bool why = false;
};

// What the draws of one sketch come to.
struct Draws {
  int feasible = 0;
  Json samples = Json::array();
  std::map<std::string, int> reasons;      // of those that are not, or (with --why) do not lower
};

Draws draw(const Task& task, const Sketch& sketch, const SpaceOptions& options, Rng& rng) {
  Draws draws;
  for (int i = 0; i < kDraws; ++i) {
    const absl::StatusOr<Sample> drawn = sample(task.start(), sketch, rng);
    absl::Status status = drawn.status();
    if (status.ok() && options.why) status = lower(drawn->nest).status();
    if (!status.ok()) ++draws.reasons[std::string(status.message())];
    if (!drawn.ok()) continue;
    ++draws.feasible;
    if (static_cast<int>(draws.samples.size()) < options.samples)
      draws.samples.push_back(to_text(drawn->trace));
  }
  return draws;
}

absl::StatusOr<int> run_space(const SpaceOptions& options) {
  ASSIGN_OR_RETURN(const Task task, options.workload.task());
  std::vector<Refusal> refusals;
  const std::vector<Sketch> sketches = make_space(task.start(), &refusals);
  Json list = Json::array(), refused = Json::array();
  Table table{{"sketch", "steps", "decisions", "schedules", "feasible", "sample"}, {},
              {false, true, true, true, true}};
  double total = 0;
  std::string text;
  for (size_t s = 0; s < sketches.size(); ++s) {
    const Sketch& sketch = sketches[s];
    Rng rng = Rng(options.seed).split(s);
    double size = 0;
    for (int i = 0; i < kSizePaths; ++i)
      size += estimate_size(task.start(), sketch, rng) / kSizePaths;
    total += size;
    const Draws draws = draw(task, sketch, options, rng);
    const int64_t open = std::count(sketch.open.begin(), sketch.open.end(), true);
    list.push_back({{"name", sketch.name},
                    {"last_resort", sketch.last_resort},
                    {"steps", sketch.steps.size()},
                    {"decisions", open},
                    {"size", size},
                    {"draws", kDraws},
                    {"feasible", draws.feasible},
                    {"reasons", draws.reasons},
                    {"samples", draws.samples}});
    table.rows.push_back({sketch.name, concat(sketch.steps.size()), concat(open),
                          absl::StrFormat("%.2g", size),
                          percent(static_cast<double>(draws.feasible) / kDraws),
                          draws.samples.empty() ? "" : trace_as_line(draws.samples[0])});
    text += bold(sketch.name) +
            absl::StrFormat(
                "  about %.2g schedules, %d decisions in %d steps, %s of draws feasible\n", size,
                open, sketch.steps.size(), percent(static_cast<double>(draws.feasible) / kDraws));
    for (const Json& one : draws.samples) text += "    " + trace_as_line(one) + "\n";
    if (!options.why) continue;
    for (const auto& [reason, count] : draws.reasons)
      text += absl::StrFormat("    %d of %d draws: %s\n", count, kDraws, reason);
  }
  for (const Refusal& refusal : refusals) {
    refused.push_back(
        {{"sketch", refusal.sketch}, {"whole", refusal.whole}, {"why", refusal.why}});
    if (!options.why) continue;
    text += bold(refusal.sketch) + (refusal.whole ? "  not in the space: " : "  without a step: ") +
            refusal.why + "\n";
  }
  text += absl::StrFormat("%d %s, about %.2g schedules\n", sketches.size(),
                          sketches.size() == 1 ? "sketch" : "sketches", total);
  emit(options.output,
       {{"workload", task.workload().source_words},
        {"size", total},
        {"sketches", list},
        {"refused", refused}},
       table, text);
  return kDone;
}

Action declare_space(CliArguments app) {
  auto options = std::make_shared<SpaceOptions>();
  add_workload(app, &options->workload);
  add_output(app, &options->output);
  app.add_option("--seed", options->seed, "of the samples").capture_default_str();
  app.add_option("--samples", options->samples, "to print of each sketch")
      .between(0, kDraws).capture_default_str();
  app.add_flag("--why", options->why,
               "say which steps were left out, which sketches are not in the space and which draws "
               "cannot be lowered, and why");
  return [options] { return run_space(*options); };
}

}  // namespace

const CommandGroup& space_commands() {
  static const CommandGroup group = {60, {
      {"space", "how many schedules there are, with samples", declare_space},
  }};
  return group;
}

}  // namespace lw
